# A library that is loaded and unloaded 1,500 times: it costs seconds, little more than a quarter of them does, and holds the
# program no longer than --overhead allows.
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
    timeout -s KILL 300 "$REDHANDED" run --overhead 5% --json report -- ./reload ./library.so "$1" > out 2> err
    status=$?
    times > after
    took=$(($(spent after) - $(spent before)))
    expect 0 66
    is_sane
    is_report report || fail "no report"
    [ $took -gt 0 ] || fail "it took no CPU time"
    # A short run has two seconds on credit.
    sed -n 's/^ *"\(held_s\|thread_s\)": \([0-9.]*\),$/\1 \2/p' report |
        awk '{ s[$1] = $2 } END { exit !("held_s" in s && s["held_s"] <= 0.05 * s["thread_s"] + 2) }' ||
        fail "$1 dlopens: $(grep -e '"held_s"' -e '"thread_s"' report)"
}
loaded 375
few=$took
loaded 1500
[ $took -le $((2 * few + 4000)) ] || fail "1,500 dlopens took $took ms of CPU time, and 375 took $few ms"
