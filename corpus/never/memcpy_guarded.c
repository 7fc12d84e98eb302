// memcpy by a tail call, memcpy by a pointer, strcpy and strlen, all of them under a mutex.
//@ build: O2
//@ full: O0 O2+clang O2+static O2+musl+static O2+nodebug O2+stripped
//@ focus: fill_buffer copy_out measure
//@ twin-expect: what=buffer functions=~filler,~copy_out
#include "../lib/crew.h"
#include <string.h>

char buffer[256];
static char source[256] = "contents";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *(*volatile copier)(void *, const void *, size_t) = memcpy;

KEEP static void *fill_buffer(size_t length)
{
    return memcpy(buffer, source, length);
}

KEEP static size_t copy_out(char *to)
{
    copier(to, buffer, sizeof buffer);
    strcpy(buffer + 100, "replaced");
    return (size_t)to[0] + 1;
}

KEEP static size_t measure(void)
{
    return strlen(buffer);
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

static void filler(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        enter();
        fill_buffer(sizeof buffer);
        leave();
        busy(4);
    }
}

static void reader(void)
{
    char copy[256];
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        enter();
        use_value(copy_out(copy));
        use_value(measure());
        leave();
        busy(4);
    }
    (void)lock;
}

int main(void)
{
    return run_pair(filler, reader);
}
