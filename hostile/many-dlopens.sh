# A library that is loaded and unloaded 1,500 times: it costs seconds, and no more for each time than a quarter of them does.
#@ within: 400s
compile reload
gcc -g -O1 -shared -fPIC "$HOSTILE/programs/library.c" -o library.so || fail "cannot build the library"
# How long a moment is depends on the machine.
loaded() {
    began=$(date +%s%N)
    timeout -s KILL 300 "$REDHANDED" run --json report -- ./reload ./library.so "$1" > out 2> err
    status=$?
    took=$((($(date +%s%N) - began) / 1000000))
    expect 0 66
    is_sane
    is_report report || fail "no report"
}
loaded 375
few=$took
loaded 1500
[ $took -le $((8 * few + 2000)) ] || fail "1,500 dlopens took $took ms, and 375 took $few ms"
