# Little of anything while a program is recorded, and while a recording is analysed: an ordinary run, or a sentence and 125,
# and never success with nothing recorded.
#@ within: 400s
own_recorder
compile end
gcc -O1 "$HOSTILE/programs/recording.c" -o recording || fail "cannot build recording"
./recording accesses 2 > given
tried() {
    limit=$1
    (eval "ulimit $limit" && exec "$REDHANDED" --version) > /dev/null 2>&1 || return 0
    rm -f r
    (eval "ulimit $limit" && exec timeout -s KILL 60 "$REDHANDED" record -o r -- ./end 100) > out 2> err
    status=$?
    limited "record, $limit" 7
    if [ $status = 7 ]; then
        [ -s r ] || fail "record, $limit: nothing was recorded"
    fi
    (eval "ulimit $limit" && exec timeout -s KILL 60 "$REDHANDED" analyze given) > out 2> err
    status=$?
    limited "analyze, $limit" 0 66
    (eval "ulimit $limit" && exec timeout -s KILL 60 "$REDHANDED" check --hunt 0 -- ./end 100) > out 2> err
    status=$?
    limited "check, $limit" 7
    [ $status != 125 ] || ! grep -q 'No race' err || fail "check, $limit: it found no race in nothing"
}
for number in 4 5 6 7 8 10 12 14 16 18 20 24 32; do tried "-n $number"; done
for number in 0 1 2 4; do tried "-f $number"; done
limit=20000
while [ $limit -lt 400000 ]; do
    tried "-v $limit"
    limit=$((limit * 5 / 4))
done
