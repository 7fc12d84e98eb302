# Few descriptors, whatever the number: an ordinary run, or one sentence and 125. At 20 it must be a run.
#@ within: 240s
compile end
compile spin
start ./spin
limits='0 1 2 3 4 5 6 7 8 9 10 11 12 14 16 20'
[ "$SCALE" = 1 ] || limits=$(seq 0 40)
for limit in $limits; do
    # Below this the tool itself cannot be loaded.
    (ulimit -n $limit && exec "$REDHANDED" --version) > /dev/null 2>&1 || continue
    (ulimit -n $limit && exec "$REDHANDED" run -- ./end) > out 2> err
    status=$?
    limited "-n $limit" 7
    (ulimit -n $limit && exec "$REDHANDED" attach --for 200ms "$target") > out 2> err
    status=$?
    limited "attach, -n $limit" 0 66
done
[ $status != 125 ] || fail "$limit descriptors are not enough"
ends_well "$target"
