# Nobody reads stderr, the report's pipe or the events: the target is left alone all the same, and a signal ends the tool.
#@ within: 240s
compile spin
mkfifo full unread events

# Ends soon after a signal, with one of these statuses. One that comes before the report is begun is answered by that.
told_to_end() {
    until_true is_free "$target"
    for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        is_gone "$front" && break
        kill -TERM "$front"
        sleep 1
    done
    is_gone "$front" || fail "it waits for a reader"
    wait "$front"
    status=$?
    : > err
    expect "$@"
    ends_well "$target"
}

# A pipe that is full, and whose readers never read.
exec 9<> full
dd if=/dev/zero bs=65536 count=1 status=none > full

# One signal is enough, whether it comes before the first race, between them, or before the report.
for moment in 0 1; do
    for options in --quiet ''; do
        start ./spin
        env --default-signal=INT,QUIT "$REDHANDED" attach $options "$target" 2> full &
        front=$!
        until_true is_traced "$target"
        sleep $moment
        kill -TERM "$front"
        until_true is_gone "$front"
        wait "$front"
        status=$?
        : > err
        expect 0 66 67 143
        ends_well "$target"
    done
done

# A race is announced before the end, which --for and one signal bring all the same, however much there is to tell.
for options in '--for 2s' '--for 8s --overhead 50%' '--log session.log'; do
    start ./spin
    env --default-signal=INT,QUIT "$REDHANDED" attach $options "$target" 2> full &
    front=$!
    until_true is_traced "$target"
    sleep 2
    case $options in *session.log) kill -TERM "$front" ;; esac
    told_to_end 0 66
done

# A report for a pipe that nobody opens.
start ./spin
begin attach --for 3s --json unread "$target"
until_true is_traced "$target"
until_true is_free "$target"
# A signal that comes before the report is written ends something else.
seconds=0
until is_gone "$front" || [ $seconds = 30 ]; do
    kill -TERM "$front" 2> /dev/null
    sleep 1
    seconds=$((seconds + 1))
done
end
expect 125
says 'cannot write the report to unread: nobody reads it'
ends_well "$target"

# Events that nobody reads, or only the first of which: they stop nothing.
exec 8<> events
dd if=/dev/zero bs=65536 count=1 status=none > events
start ./spin
redhanded attach --for 2s --events events "$target"
expect 0 66
says 'nobody reads events'
ends_well "$target"
exec 8<&-
(head -n 1 > first) < events &
start ./spin
redhanded attach --for 2s --events events "$target"
expect 0 66
never_says 'events'
grep -q '"started"' first || fail "the first event did not arrive"
ends_well "$target"
