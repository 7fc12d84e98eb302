// read() fills a buffer that another thread is using: the conflicting access
// is the kernel's. Without the privilege to watch it, the bytes just change.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=buffer functions=consume system_call=read
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <sys/mman.h>
#include <unistd.h>

static unsigned char buffer[64];
static int source;

// One time zeros, one time not: who cannot watch the kernel sees the change.
KEEP static void refill(void)
{
    if (read(source, buffer, sizeof buffer) == (ssize_t)sizeof buffer)
        return;
    if (lseek(source, 0, SEEK_SET) != 0)
        exit(1);
}

KEEP static unsigned consume(size_t at)
{
    unsigned char value = buffer[at];
    buffer[at] = 0xff;
    return value;
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        refill();
        busy(2);
    }
}

static void user(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(consume(20));
        busy(4);
    }
}

int main(void)
{
    static const unsigned char ones[64] = {[0 ... 63] = 1};
    source = memfd_create("source", 0);
    if (source < 0 || ftruncate(source, 64) != 0 || pwrite(source, ones, 64, 64) != 64)
        return 1;
    return run_pair(reader, user);
}
