# Few processes: an ordinary run, or one sentence and 125.
#@ as: ordinary
#@ within: 240s
compile end
compile spin
start ./spin
limits='0 1 2 3 4 5 6 7 8 9 10 12 14 16 18 20 30'
[ "$SCALE" = 1 ] || limits=$(seq 0 40)
for limit in $limits; do
    # In place of the limited shell, which must not fork.
    sh -c "ulimit -p $limit; exec \"\$REDHANDED\" run -- ./end" > out 2> err
    status=$?
    limited "-u $limit" 7
    sh -c "ulimit -p $limit; exec \"\$REDHANDED\" attach --for 200ms $target" > out 2> err
    status=$?
    limited "attach, -u $limit" 0 66
done
[ $status != 125 ] || fail "$limit processes are not enough"
ends_well "$target"
