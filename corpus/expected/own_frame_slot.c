// A thread updates a local variable of main by its address, while main reads it directly,
// relative to its own stack pointer.
//@ build: O0 O2
//@ full: O2+clang O3
//@ expect: what=* region=stack functions=add_up,main
#include "../lib/crew.h"

KEEP static void add_up(long *total)
{
    *total += 1;
}

static void *adder(void *arg)
{
    long *total = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        add_up(total);
        busy(4);
    }
    return NULL;
}

int main(void)
{
    long total = 0, seen = 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, adder, &total) != 0)
        return 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        seen += total;
        busy(4);
    }
    pthread_join(thread, NULL);
    return seen >= 0 ? 0 : 1;
}
