// System calls that read and write a buffer, under the same mutex as the program's own accesses.
//@ build: O2
//@ full: O0 O2+clang O2+static
//@ focus: compose toggle
//@ twin-expect: what=message functions=compose system_call=pread64
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

char message[64];
int mode;
static int file, ends[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

KEEP static void compose(size_t at, char letter)
{
    message[at] = letter;
}

KEEP static void toggle(int to)
{
    mode = to;
}

static void enter(void)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
#endif
}

static void leave(void)
{
#ifndef TWIN
    pthread_mutex_unlock(&lock);
#endif
}

static void composer(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        enter();
        compose(20, (char)i);
        toggle((int)(i & 1));
        leave();
        busy(4);
    }
}

static void caller(void)
{
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        enter();
        if (pwrite(file, message, sizeof message, 0) < 0 || ioctl(ends[0], FIONBIO, &mode) != 0 ||
            pread(file, message, sizeof message, 0) < 0)
            exit(1);
        leave();
        busy(4);
    }
    (void)lock;
}

int main(void)
{
    file = memfd_create("file", 0);
    if (file < 0 || pipe(ends) != 0)
        return 1;
    return run_pair(composer, caller);
}
