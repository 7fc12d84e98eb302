# A workload meant for the virtual machine carries an audit library: nothing of it runs on the host.
#@ as: root
[ -n "${KERNEL:-}" ] || skip "no kernel in the cache folder"
cat > audit.c << C
#include <fcntl.h>
#include <unistd.h>
unsigned la_version(unsigned version) { return version; }
__attribute__((constructor)) static void run(void) { close(open("$PWD/executed", O_CREAT, 0644)); }
C
gcc -shared -fPIC audit.c -o audit.so || fail "cannot build the audit library"
compile end -Wl,--audit="$PWD/audit.so"
./end > /dev/null
[ -e executed ] || skip "the loader does not run audit libraries"
rm executed
export REDHANDED_KERNELS="$KERNELS"
# QEMU ends at once; the workload was prepared before.
redhanded kernel --kernel "$KERNEL" --qemu-arg=-no-such-option -- ./end
expect 125 126
[ ! -e executed ] || fail "the workload's library ran on the host"
