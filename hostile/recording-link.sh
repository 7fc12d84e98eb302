# What another user planted where the recording goes: a link is not followed, and a pipe is not waited for.
own_recorder
compile end
mkdir sticky
chmod 1777 sticky
mkfifo sticky/pipe
timeout -s KILL 30 "$REDHANDED" record -o sticky/pipe -- ./end 100 > out 2> err
status=$?
is_sane
refused
if is_root; then
    echo 'root only' > victim
    $as_user ln -s "$PWD/victim" sticky/recording
    for command in 'record -o' 'check --recording'; do
        redhanded $command sticky/recording -- ./end 100
        [ "$(cat victim)" = 'root only' ] || fail "the planted link was followed"
        expect 125
        never_says 'No race'
        ! grep -q 'No race' out || fail "it found no race in nothing"
    done
fi
# Nobody else may read a recording, whatever was there.
umask 0
: > old
chmod 666 old
for name in old new; do
    redhanded record -o $name -- ./end 100
    expect 7
    [ "$(stat -c %a $name)" = 600 ] || fail "others may read the recording"
done
redhanded analyze old
expect 0
redhanded analyze sticky/pipe
refused
