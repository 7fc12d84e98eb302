# A workload for the virtual machine names files of the host as its loader, interpreter and libraries: nothing hangs, takes all memory, or gets into the guest that its owner may not read.
#@ within: 300s
# A QEMU that only keeps what the guest would get.
mkdir -p cache/tools/qemu-system-x86/usr/bin cache/tools/busybox-static/bin
printf '#!/bin/sh\necho sh\n' > cache/tools/busybox-static/bin/busybox
chmod +x cache/tools/busybox-static/bin/busybox
cat > cache/tools/qemu-system-x86/usr/bin/qemu-system-x86_64 << 'QEMU'
#!/bin/sh
for word; do
    [ "${before:-}" = -initrd ] && cp "$word" given
    before=$word
done
[ "$1" != --version ] || echo 'QEMU emulator version 7.2.0'
QEMU
chmod +x cache/tools/qemu-system-x86/usr/bin/qemu-system-x86_64
cp "$REDHANDED" vmlinuz
export REDHANDED_KERNELS="$PWD/cache"

# boot WORKLOAD…: prepares the machine, in bounded memory.
boot() {
    rm -f given
    (
        ulimit -v 6000000
        exec timeout -s KILL 50 "$REDHANDED" kernel --kernel vmlinuz --vmlinux "$REDHANDED" --accel tcg --overhead 0 "$@"
    ) > out 2> err
    status=$?
    is_sane
    expect 125 126
}
booted() { [ -s given ] || fail "$1: the machine was not started"; }

mkdir theirs
compile end -Wl,--dynamic-linker="$PWD/theirs/loader"
mv end theirs
mkfifo theirs/loader
boot -- theirs/end
booted "a loader that is a FIFO"
for file in /dev/zero /proc/kmsg theirs/end/; do
    ln -sf "$file" theirs/loader
    boot -- theirs/end
    booted "a loader that is $file"
done
rm theirs/loader
printf '#!%s\n' "$PWD/theirs/fifo" > theirs/script
chmod +x theirs/script
mkfifo theirs/fifo
boot -- theirs/script
booted "an interpreter that is a FIFO"

# A library that is larger than any machine.
echo 'int large;' > large.c
gcc -shared -fPIC large.c -o theirs/liblarge.so || fail "cannot build a library"
gcc "$HOSTILE/programs/end.c" -pthread -o theirs/large -Wl,--no-as-needed -Ltheirs -llarge -Wl,-rpath,'$ORIGIN' || fail "cannot build large"
boot -- theirs/large
booted "an ordinary library"
truncate -s 100G theirs/liblarge.so || skip "no sparse files here"
boot -- theirs/large
says 'too little memory'
rm theirs/liblarge.so theirs/large

# Modules are unpacked before they are loaded.
mkdir modules
truncate -s 20G modules/zeros
head -c 1000000000 modules/zeros | gzip -1 > modules/large.ko.gz
printf '#!/bin/sh\n[ "$1" = zcat ] && exec gzip -dc\necho sh\n' > cache/tools/busybox-static/bin/busybox
boot --add modules/large.ko.gz -- theirs/script
says 'too little memory'

is_root || exit 0
# What only root may read, as the loader and as the interpreter of a user's programs.
mkdir secret
chmod 755 secret
cp /bin/true secret/loader
printf 'what only root may read' >> secret/loader
chmod 700 secret/loader
compile end -Wl,--dynamic-linker="$PWD/secret/loader"
boot -- ./end
grep -q 'what only root may read' given || fail "root's own workload lacks its loader"
mv end theirs
printf '#!%s\n' "$PWD/secret/loader" > theirs/script
ln -s "$PWD/secret/loader" theirs/link
chown -Rh "$ORDINARY" theirs
for workload in theirs/end theirs/script; do
    boot -- $workload
    booted "$workload"
    ! grep -q 'what only root may read' given || fail "$workload: a secret got into the guest"
done
# The same in a folder of theirs that is added.
boot --add theirs:/theirs -- theirs/end
booted "a folder"
! grep -q 'what only root may read' given || fail "a secret got into the guest"
