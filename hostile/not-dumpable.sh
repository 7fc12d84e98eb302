# The tracer of a target that is not dumpable is killed: the target lives on. A thread that ran into a breakpoint just
# before dies (docs/fidelity.md), and of an ordinary user's nobody can stop the others then: the longer the killed tracer
# waits for a processor, the more often. So there are few samples. If breakpoints were left, all would die.
#@ within: 240s
compile spin -DUNDUMPABLE
is_free_or_gone() { is_gone "$target" || is_free "$target"; }
dead=0
for round in 1 2 3 4 5 6 7 8; do
    rm -f ready
    "$REDHANDED" run --rate 2 --overhead 1% --quiet -- ./spin > ready 2> err &
    front=$!
    until_true grep -q ready ready
    target=$(sed -n 's/ready //p' ready)
    # By then all code that runs has been sampled once.
    sleep 0.5
    sleep 0.$round
    kill -KILL "$(tracer_of "$target")"
    until_true is_free_or_gone
    sleep 0.2
    is_gone "$target" && dead=$((dead + 1))
    kill -TERM "$target" 2> /dev/null
    end
    expect 125
done
is_root && most=1 || most=4
[ $dead -le $most ] || fail "$dead of 8 targets are dead"
