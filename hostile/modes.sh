# A core holds the target's memory: whatever the umask, nobody else may read it, and the folder stays as it was.
compile spin
umask 0
mkdir cores
chmod 755 cores
redhanded run --for 60s --kill --max-races 1 --core cores -- ./spin
expect 66
# A second one may be written before the tool has heard that one is enough.
for core in cores/*; do
    [ -e "$core" ] || fail "no core"
    [ "$(stat -c %a "$core")" = 600 ] || fail "the core's mode is $(stat -c %a "$core")"
done
[ "$(stat -c %a cores)" = 755 ] || fail "the folder's mode is $(stat -c %a cores)"
