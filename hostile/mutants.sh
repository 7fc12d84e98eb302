# Programs that are damaged at random places, from a fixed seed: each gives a list or a sentence, soon.
#@ within: 240s
gcc -O1 "$HOSTILE/programs/mutate.c" -o mutate || fail "cannot build mutate"
compile end -gz=none
count=$((150 * SCALE))
number=0
while [ $number -lt $count ]; do
    number=$((number + 1))
    ./mutate end mutant $number || fail "cannot damage"
    chmod +x mutant
    timeout -s KILL 20 "$REDHANDED" sites mutant > out 2> err
    status=$?
    is_sane
    case $status in
        0) ;;
        125) [ "$(wc -l < err)" = 1 ] || fail "mutant $number: one sentence was expected" ;;
        *) fail "mutant $number gives status $status" ;;
    esac
    # Running every one takes longer; the target may do whatever the damage makes of it.
    [ $((number % 5)) = 0 ] || continue
    timeout -s KILL 20 "$REDHANDED" run --for 300ms --kill -- ./mutant > out 2> err < /dev/null
    status=$?
    grep -q -e panicked -e '\.rs:[0-9]' err && fail "mutant $number: it panicked"
    [ $status != 137 ] || grep -q 'signal 9' err || fail "mutant $number: it hangs"
    [ $status != 101 ] || fail "mutant $number: status 101"
done
