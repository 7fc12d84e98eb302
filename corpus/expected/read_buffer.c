// read() fills a buffer that another thread is using: the conflicting access
// is the kernel's. Without the privilege to watch it, the bytes just change.
//@ build: O0 O2
//@ expect: what=buffer functions=consume system_call=read
#include "../lib/crew.h"
#include <fcntl.h>
#include <unistd.h>

static unsigned char buffer[64];
static int zero;

KEEP static void refill(void)
{
    if (read(zero, buffer, sizeof buffer) != (ssize_t)sizeof buffer)
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
        (void)consume(20);
        busy(4);
    }
}

int main(void)
{
    zero = open("/dev/zero", O_RDONLY);
    if (zero < 0)
        return 1;
    return run_pair(reader, user);
}
