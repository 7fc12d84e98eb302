#!/bin/sh
# Runs $PROGRAM under Redhanded in a CI job, and fails for races that are new.
#
# The store comes from the folder .redhanded, which the CI system keeps from job to job, and goes
# back there. The reports are redhanded-report.json and redhanded-report.sarif.
set -eu

: "${PROGRAM:?name the program and its arguments}"
reports=redhanded-report
# Whatever an earlier job left is not about this one.
rm -f "$reports.json" "$reports.sarif"

# Some runners check out into folders that everybody may write to, or that belong to another user.
# Redhanded keeps no store there.
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
if [ -d .redhanded ]; then cp -r .redhanded/. "$store"; fi

set -- --store "$store/races.db" --fail-on new --min-samples "${MIN_SAMPLES:-1000}" \
    --for "${FOR:-1m}" --kill --json "$reports.json" --sarif "$reports.sarif"
if [ -n "${SUPPRESSIONS:-}" ]; then set -- "$@" --suppressions "$SUPPRESSIONS"; fi
status=0
# Options, and the program with its arguments, are words.
# shellcheck disable=SC2086
"${REDHANDED:-redhanded}" run "$@" ${OPTIONS:-} -- $PROGRAM || status=$?

# In one step, so that a full disk leaves the store as it was.
rm -rf .redhanded.new
cp -r "$store" .redhanded.new
rm -rf .redhanded
mv .redhanded.new .redhanded
exit "$status"
