# Recordings of some kilobytes that claim accesses to gigabytes, locks and threads without end, or that unpack to gigabytes:
# the analysis ends, within bounds of memory and time, and says what it left out.
#@ within: 600s
gcc -O1 "$HOSTILE/programs/recording.c" -o recording || fail "cannot build recording"
gcc -O1 "$HOSTILE/programs/peak.c" -o peak || fail "cannot build peak"
analysed() {
    ./recording "$@" > bomb
    timeout -s KILL 150 ./peak "$REDHANDED" analyze --json report bomb > out 2> err
    status=$?
    is_sane
    expect 0 66 125
    peak=$(sed -n 's/^peak //p' err)
    [ "$peak" -lt 1100000 ] || fail "$*: it took $peak KiB"
    is_report report || fail "$*: no report"
}
analysed accesses 64
analysed accesses 4000
grep -q 'kept track of\|MB of memory' report || fail "it does not say what it left out"
analysed locks 50000
analysed starts 20000
grep -q 'threads are told apart' report || fail "it does not say what it left out"
analysed sites 4000
analysed packed 400
expect 125
says 'far more than a file of its size'
mkfifo pipe
redhanded analyze pipe
refused
