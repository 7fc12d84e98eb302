# Little of anything while a program is recorded, and while a recording is analysed: an ordinary run, or a sentence and 125,
# and never success with nothing recorded.
#@ within: 400s
own_recorder
compile end
gcc -O1 "$HOSTILE/programs/recording.c" -o recording || fail "cannot build recording"
./recording accesses 2 > given

# All that the tool says goes through a pipe: it must not be what fails.
under_limit() {
    said=$( (ulimit $limit; exec timeout -s KILL 60 "$REDHANDED" "$@") 2>&1; echo "status $?")
    status=${said##*status }
    echo "$said" | tee out > err
}

tried() {
    limit=$1
    (ulimit $limit; exec "$REDHANDED" --version) > /dev/null 2>&1 || return 0
    rm -f r
    under_limit record -o r -- ./end 100
    limited "record, $limit" 7
    [ "$status" != 7 ] || [ -s r ] || fail "record, $limit: nothing was recorded"
    under_limit analyze given
    limited "analyze, $limit" 0 66
    under_limit check --hunt 0 -- ./end 100
    limited "check, $limit" 7
    [ "$status" != 125 ] || ! grep -q 'No race' err || fail "check, $limit: it found no race in nothing"
}
numbers='4 5 6 7 8 10 12 14 16 18 20 24 32'
[ "$SCALE" = 1 ] || numbers=$(seq 0 40)
for number in $numbers; do tried "-n $number"; done
for number in 0 1 2 4; do tried "-f $number"; done
limit_kib=20000
while [ $limit_kib -lt 400000 ]; do
    tried "-v $limit_kib"
    limit_kib=$((limit_kib * 5 / 4))
done
is_root && exit 0
# In place of the limited shell, which must not fork. As root there is no such limit.
for number in 0 1 2 3 4 6 8 12 16; do
    rm -f r
    for command in 'record -o r -- ./end 100' 'analyze given' 'check --hunt 0 -- ./end 100'; do
        sh -c "ulimit -p $number; exec \"\$REDHANDED\" $command" > out 2> err
        status=$?
        limited "$command, -u $number" 0 7 66
        case $status$command in
            7record*) [ -s r ] || fail "record, -u $number: nothing was recorded" ;;
            0record*) fail "record, -u $number: it succeeded with nothing" ;;
        esac
    done
done
