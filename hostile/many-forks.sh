# A target that forks 1,500 times, some of them at once: all children run and end, and so does the tool.
#@ within: 240s
compile forks
timeout -s KILL 200 "$REDHANDED" run --json report -- ./forks 1500 > out 2> err
status=$?
is_sane
expect 0 66
grep -q '1500 ended well' out || fail "children were lost"
