# A recording names a user's program, whose source is said to be a file that only root may read: root's analysis of it
# does not quote that, whoever owns the recording and whatever takes its name meanwhile.
#@ as: root
for _ in 1 2 3 4; do echo 'the password is swordfish'; done > secret
chmod 600 secret
gcc -O1 "$HOSTILE/programs/recording.c" -o recording || fail "cannot build recording"
mkdir home
compile pair -no-pie -fcf-protection=none -DLINE="\"$PWD/secret\""
mv pair home
chmod 755 home home/pair
at() { nm home/pair | sed -n "s/ [A-Za-z] $1\$//p"; }
spin() { ./recording spin "$PWD/home/pair" "$(at shared)" "$(at one)" "$(at two)" "$@"; }
sleep 1.1
quotes_nothing() {
    expect 0 66
    for file in out err report; do
        ! grep -q swordfish $file || fail "$file quotes the secret: $1"
    done
    grep -q '"shared"' report || fail "the race was not found: $1"
}
# All root's: what it may quote is root's own affair, and this is what the others would show.
spin > ours
redhanded analyze --verbose ours
grep -q swordfish out || fail "the race has no source even where root owns all"
chown -R "$ORDINARY" home
redhanded analyze --verbose --json report ours
quotes_nothing "root's recording of a user's program"
redhanded analyze --verbose ours
! grep -q swordfish out || fail "root's recording of a user's program"
spin > home/theirs
chown "$ORDINARY" home/theirs
redhanded analyze --verbose --json report home/theirs
quotes_nothing "a user's recording"
redhanded analyze --verbose home/theirs
! grep -q swordfish out || fail "a user's recording"
# Exchanged for root's while it is read.
spin 40 > large
for _ in 1 2 3; do
    cp large home/theirs
    chown "$ORDINARY" home/theirs
    (sleep 0.05; ln -sf "$PWD/ours" home/other; mv -T home/other home/theirs) &
    redhanded analyze --verbose home/theirs
    wait $!
    ! grep -q swordfish out || fail "a recording that was exchanged"
    rm -f home/theirs
done
