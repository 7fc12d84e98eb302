# Gdbstubs that drip, flood, say nothing or take nobody, and documents that include themselves: the tool gives up with a
# sentence, and is gone soon after a signal.
#@ within: 240s
compile stub
for kind in silent drips floods full includes-itself escapes; do
    (
        mkdir "$kind"
        cd "$kind" || exit 1
        start ../stub "$kind" stub
        timeout -s KILL 60 "$REDHANDED" kernel --gdb unix:stub --vmlinux "$REDHANDED" --for 1s > out 2> err
        status=$?
        refused
        [ "$kind" = full ] || [ "$kind" = includes-itself ] || [ "$kind" = escapes ] || {
            begin kernel --gdb unix:stub --vmlinux "$REDHANDED" --for 1s
            sleep 1
            kill -TERM "$front"
            end
            expect 143 125
        }
        put_down "$target"
    ) > "$kind.log" 2>&1 &
    stubs="${stubs:-} $!"
done
for stub in $stubs; do
    wait "$stub" || failed=1
done
[ -z "${failed:-}" ] || { cat ./*.log; exit 1; }
