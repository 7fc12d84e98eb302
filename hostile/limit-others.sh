# Little of anything for the commands that only look at what is there, sites, report, replay and triage: an ordinary end, or a sentence and 125.
#@ within: 400s
compile spin
redhanded run --for 5s --kill --log log --json report --store races.db --scenarios scenarios -- ./spin
expect 66
scenario=$(find scenarios -name '*.scenario')
[ -n "$scenario" ] || fail "no scenario was kept"
race=$(basename "$scenario" .scenario)

# All that the tool says goes through a pipe: it must not be what fails.
under_limit() {
    what="$1, $limit"
    said=$( (ulimit $limit; exec timeout -s KILL 60 "$REDHANDED" "$@") 2>&1; echo "status $?")
    status=${said##*status }
    echo "$said" | tee out > err
}

tried() {
    limit=$1
    (ulimit $limit; exec "$REDHANDED" --version) > /dev/null 2>&1 || return 0
    under_limit sites ./spin
    limited "$what" 0
    for file in log report races.db; do
        under_limit report $file
        limited "$what $file" 0 66
    done
    under_limit replay "$scenario"
    limited "$what" 0 66
    under_limit triage --store races.db --state confirmed --because known "$race"
    limited "$what" 0
}
numbers='4 5 6 7 8 10 12 14 16 18 20 24 32'
[ "$SCALE" = 1 ] || numbers=$(seq 0 40)
for number in $numbers; do tried "-n $number"; done
for number in 0 1 2 4; do tried "-f $number"; done
limit_kib=20000
while [ $limit_kib -lt 400000 ]; do
    tried "-v $limit_kib"
    limit_kib=$((limit_kib * 5 / 4))
done
is_root && exit 0
# In place of the limited shell, which must not fork. As root there is no such limit.
for number in 0 1 2 3 4 6 8 12; do
    for command in 'sites ./spin' 'report log' "replay $scenario" "triage --store races.db --state confirmed --because known $race"; do
        sh -c "ulimit -p $number; exec \"\$REDHANDED\" $command" > out 2> err
        status=$?
        limited "$command, -u $number" 0 66
    done
done
