# Streams that are closed, or that nobody reads: the program sees them as it would alone, and its status is passed on.
compile end
compile streams
for closed in '' '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '>&- 2>&-' '<&- >&- 2>&-' '2>/dev/full'; do
    eval './streams '"$closed"
    alone=$?
    for options in '' '--safe'; do
        rm -f report
        : > err
        eval '"$REDHANDED" run '"$options"' --json report -- ./streams '"$closed"
        status=$?
        expect $alone
        is_report report || fail "no report with $closed"
    done
done
"$REDHANDED" run --json report -- ./end >&- 2>&- <&-
status=$?
: > err
# It cannot write.
expect 1
("$REDHANDED" run -- ./end; echo $? > code) 2>&1 | :
until_true test -s code
case $(cat code) in 7 | 1 | 141) ;; *) fail "a reader that is gone: $(cat code)" ;; esac
