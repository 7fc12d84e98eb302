# A guest floods its console with empty lines: the memory of the tool stays small.
gcc -O1 "$HOSTILE/programs/peak.c" -o peak || fail "cannot build peak"
# A QEMU that only floods: the second number of its options is the descriptor of the console.
mkdir -p cache/tools/qemu-system-x86/usr/bin cache/tools/busybox-static/bin
printf '#!/bin/sh\necho sh\n' > cache/tools/busybox-static/bin/busybox
chmod +x cache/tools/busybox-static/bin/busybox
cat > cache/tools/qemu-system-x86/usr/bin/qemu-system-x86_64 << 'QEMU'
#!/bin/sh
for word; do
    case $word in
        fd=*,set=1) console=${word#fd=} console=${console%,set=1} ;;
        --version) echo 'QEMU emulator version 7.2.0'; exit ;;
    esac
done
[ -n "${console:-}" ] && yes '' | head -c 2500000 > "/proc/self/fd/$console" && touch flooded
QEMU
chmod +x cache/tools/qemu-system-x86/usr/bin/qemu-system-x86_64
cp "$REDHANDED" vmlinuz
export REDHANDED_KERNELS="$PWD/cache"
timeout -s KILL 50 ./peak "$REDHANDED" kernel --kernel vmlinuz --vmlinux "$REDHANDED" --accel tcg --overhead 0 -- "$REDHANDED" > out 2> err
status=$?
is_sane
expect 125 126
says 'redhanded: '
[ -e flooded ] || fail "the console was not flooded"
peak=$(sed -n 's/^peak //p' err)
[ "$peak" -lt 100000 ] || fail "it took $peak KiB"
