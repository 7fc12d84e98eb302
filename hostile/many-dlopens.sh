# A library that is loaded and unloaded 1,500 times: it costs seconds, and no more for each time than a quarter of them does.
#@ within: 400s
compile reload
gcc -g -O1 -shared -fPIC "$HOSTILE/programs/library.c" -o library.so || fail "cannot build the library"
# spent FILE: the CPU time in milliseconds of all that was waited for, of what `times` has written to a file.
spent() {
    sed -n '2{s/[ms]/ /g;p;}' "$1" | awk '{ printf "%d\n", 1000 * (60 * ($1 + $3) + $2 + $4) }'
}
# How long a run takes depends on what else the machine does.
loaded() {
    times > before
    timeout -s KILL 300 "$REDHANDED" run --json report -- ./reload ./library.so "$1" > out 2> err
    status=$?
    times > after
    took=$(($(spent after) - $(spent before)))
    expect 0 66
    is_sane
    is_report report || fail "no report"
    [ $took -gt 0 ] || fail "it took no CPU time"
}
loaded 375
few=$took
loaded 1500
[ $took -le $((8 * few + 2000)) ] || fail "1,500 dlopens took $took ms of CPU time, and 375 took $few ms"
