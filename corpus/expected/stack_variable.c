// A local variable of main is lent to two threads, which both update it.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=* region=stack functions=add_to,add_to
#include "../lib/crew.h"

KEEP static void add_to(long *total)
{
    *total += 1;
}

static void *adder(void *arg)
{
    long *total = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        add_to(total);
        busy(4);
    }
    return NULL;
}

int main(void)
{
    long total = 0;
    pthread_t first, second;
    if (pthread_create(&first, NULL, adder, &total) != 0 ||
        pthread_create(&second, NULL, adder, &total) != 0)
        return 1;
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    return total > 0 ? 0 : 1;
}
