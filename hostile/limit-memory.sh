# Little memory, whatever the amount: an ordinary run, or a sentence and 125.
#@ within: 240s
compile end
compile spin
start ./spin
# Between 80,000 and 130,000 it differs what there is no memory for.
limit=1000
while [ $limit -lt 140000 ]; do
    step=$((limit < 75000 || limit > 130000 ? 15000 : 5000))
    limit=$((limit + step / SCALE))
    (ulimit -v $limit && exec "$REDHANDED" --version) > /dev/null 2>&1 || continue
    (ulimit -v $limit && exec "$REDHANDED" run -- ./end 100) > out 2> err
    status=$?
    limited "-v $limit" 7
    (ulimit -v $limit && exec "$REDHANDED" attach --for 50ms "$target") > out 2> err
    status=$?
    limited "attach, -v $limit" 0 66
done
[ $status != 125 ] || fail "$limit KiB are not enough"
ends_well "$target"
# Too little for a second heap is no reason to ask for one again and again: what takes a moment otherwise still does.
# How long a moment is depends on the machine, so each run has one without a limit beside it.
gcc -O1 "$HOSTILE/programs/peak.c" -o peak || fail "cannot build peak"
spent=0
usual=0
for limit in 132000 134000 136000 138000 140000 150000; do
    (ulimit -v $limit && exec ./peak "$REDHANDED" run -- ./end 100) > out 2> err
    status=$?
    limited "-v $limit" 7
    spent=$((spent + $(sed -n 's/^system //p' err)))
    ./peak "$REDHANDED" run -- ./end 100 > out 2> err
    usual=$((usual + $(sed -n 's/^system //p' err)))
done
[ $spent -lt $((3 * usual + 600)) ] || fail "six short runs took $spent ms in the kernel, and $usual without a limit"
