# The target signals and kills the tool: the tool ends, nothing of the target is left stopped, and a killed tool is no
# success.
compile kills_tool
for whom in tracer front; do
    for signal in 2 15 1 9; do
        timeout -s KILL 20 "$REDHANDED" run --for 3s --kill -- ./kills_tool $whom $signal > out 2> err
        status=$?
        is_sane
        [ $signal != 9 ] || [ $status = 125 ] || [ $status = 137 ] || fail "a killed $whom gives status $status"
        [ $signal = 9 ] || [ $status != 137 ] || fail "signal $signal to the $whom: it hangs"
    done
done
