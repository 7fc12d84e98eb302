# The target cuts a library short while it is mapped and read: no SIGBUS for the tool, and a report.
#@ within: 240s
compile cuts
gcc -g -O1 -shared -fPIC "$HOSTILE/programs/library.c" -o library.so || fail "cannot build the library"
# Between the headers and the code, in the code, and behind all that is loaded; at once and when it has been read.
for cut in 64 16384 49152 94208; do
    for pause in 0 20 100; do
        "$REDHANDED" run --module 'copy*' --module cuts --json report -- ./cuts "$PWD/library.so" $pause $cut > out 2> err
        status=$?
        # The target may die of its own doing.
        expect 0 66 135 139
        never_says 'its tracer'
        is_report report || fail "no report"
        rm -f report
    done
done
