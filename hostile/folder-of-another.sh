# Root with a TMPDIR of another user, who could exchange what is made there: nothing is.
#@ as: root
own_recorder
compile end
mkdir theirs
chown "$ORDINARY" theirs
for command in 'record -o r' 'check --recording r --hunt 0'; do
    MODE=where TMPDIR="$PWD/theirs" "$REDHANDED" $command -- ./end 100 > out 2> err
    status=$?
    is_sane
    expect 7
    grep -q '^/' out || fail "the recorder was not run"
    ! grep -q "$PWD/theirs" out || fail "the recorder's folder is in another user's"
done
[ -z "$(ls theirs)" ] || fail "something was left there"
