# A storm of stops, from signals, timers and threads that come and go: the tool keeps up, and the target ends well.
compile storm
timeout -s KILL 40 "$REDHANDED" run --json report -- ./storm 2 > out 2> err
status=$?
is_sane
expect 0 66
is_report report || fail "no report"
