# A recorded program that writes to the recorder's pipes itself: it claims millions of threads, a million processes, and
# leaves one behind that never stops writing. Memory and time are bounded, and what is kept can be read.
#@ within: 300s
own_recorder
compile end
gcc -O1 "$HOSTILE/programs/peak.c" -o peak || fail "cannot build peak"
MODE=threads timeout -s KILL 100 ./peak "$REDHANDED" record -o r -- ./end 100 > out 2> err
status=$?
is_sane
expect 125
says 'more than 8192 threads'
peak=$(sed -n 's/^peak //p' err)
[ "$peak" -lt 300000 ] || fail "it took $peak KiB"
MODE=orphan timeout -s KILL 60 "$REDHANDED" record -o r -- ./end 100 > out 2> err
status=$?
is_sane
expect 3
rm r
(ulimit -n 60; MODE=taken timeout -s KILL 60 "$REDHANDED" record -o r -- ./end 100) > out 2> err
status=$?
is_sane
expect 3
redhanded analyze r
expect 0
never_says 'cut short'
