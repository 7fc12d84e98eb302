# Root with somebody else's home: neither a QEMU nor a lock that is planted there is touched.
#@ as: root
echo 'root only' > victim
mkdir -p home/.cache/redhanded/kernels/tools/qemu-system-x86/usr/bin home/.cache/redhanded/kernels/tools/busybox-static/bin
printf '#!/bin/sh\ntouch %s/executed\n' "$PWD" > home/.cache/redhanded/kernels/tools/qemu-system-x86/usr/bin/qemu-system-x86_64
cp home/.cache/redhanded/kernels/tools/qemu-system-x86/usr/bin/qemu-system-x86_64 home/.cache/redhanded/kernels/tools/busybox-static/bin/busybox
chmod -R 755 home
ln -s "$PWD/victim" home/.cache/redhanded/kernels/.lock
chown -R -h "$ORDINARY" home
export HOME="$PWD/home"
redhanded kernel --kernel "$REDHANDED" -- true
refused
says 'belongs to another user'
[ ! -e executed ] || fail "the planted QEMU was run"
[ "$(cat victim)" = 'root only' ] || fail "the lock truncated a file of root"
# A machine that already runs needs the folder too, for modules, and tidies it up.
mkdir -p home/.cache/redhanded/kernels/linked/none
chown -R -h "$ORDINARY" home
redhanded kernel --gdb unix:nowhere --vmlinux "$REDHANDED" --for 1s
refused
says 'belongs to another user'
[ -d home/.cache/redhanded/kernels/linked/none ] || fail "another user's folder was tidied up"
