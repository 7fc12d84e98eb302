# A user's program names a file that only root may read as its source: root's report does not quote it.
#@ as: root
echo 'the password is swordfish' > secret
chmod 600 secret
mkdir home
chown "$ORDINARY" home
compile spin -DLINE="\"$PWD/secret\""
start $as_user ./spin
redhanded attach --for 5s --json home/report --log log "$target"
# Its text is another's, so what is caught is only possibly atomic.
expect 0 66
grep -q '"shared"' home/report || fail "nothing was caught"
for file in err out home/report log; do
    ! grep -q swordfish $file || fail "$file quotes the secret"
done
redhanded report log
ends_well "$target"
