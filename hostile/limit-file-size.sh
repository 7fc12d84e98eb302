# Files that may not grow: an ordinary run, or a sentence and 125, never a death by SIGXFSZ.
compile end
compile spin
start ./spin

# All that the tool says goes through a pipe: it must not be what fails.
under_limit() {
    rm -f report log
    said=$( (ulimit -f "$limit"; "$REDHANDED" "$@" 2>&1; echo "status $?"))
    status=${said##*status }
    echo "$said" | tee out > err
}

limits='0 1 2 3 4 6 8 16 32 64'
[ "$SCALE" = 1 ] || limits=$(seq 0 80)
for limit in $limits; do
    under_limit run --json report --log log -- ./end
    limited "-f $limit" 7
    # What is no log must not stand in the way of the next try.
    [ ! -e log ] || [ -s log ] || fail "-f $limit: an empty log is left"
    under_limit attach --for 200ms --json report --log log "$target"
    limited "attach, -f $limit" 0 66
done
ends_well "$target"
