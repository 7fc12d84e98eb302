# The tracer or the front is killed at any moment: the target lives on with its own code, and the status is not 0.
# One may be lost with its tracer, if a thread of it has just run into a breakpoint (docs/fidelity.md).
#@ within: 240s
compile spin
rounds=$((4 * SCALE))
spare=$SCALE
while [ $rounds -gt 0 ]; do
    rounds=$((rounds - 1))
    for whom in tracer front; do
        for safe in "" --safe; do
            # Without perf events there is no --safe, and only root is promised the rest.
            if [ -n "$safe" ]; then
                begin run --safe --for 1s -- /bin/true
                end
                [ $status = 0 ] || continue
            else
                is_root || continue
            fi
            start ./spin
            begin attach $safe --for 20s "$target"
            until_true is_traced "$target"
            sleep "0.$((rounds % 10))$((rounds * 7 % 10))"
            tracer=$(tracer_of "$target")
            if [ $whom = tracer ]; then kill -KILL "$tracer"; else kill -KILL "$front"; fi
            wait "$front"
            status=$?
            [ $status = 125 ] || [ $whom = front ] || [ $status = 66 ] || fail "a killed tracer gives $status"
            until_true is_gone "$tracer"
            if [ $whom = tracer ] && [ $spare -gt 0 ]; then
                sleep 0.2
                is_gone "$target" && spare=$((spare - 1)) && continue
            fi
            ends_well "$target"
        done
    done
done
