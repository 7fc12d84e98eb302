// Of two local variables side by side, one is lent to a thread, which updates it; the other is
// main's own. Only the address of the first goes anywhere.
//@ build: O0 O2
//@ full: O2+clang O3
//@ focus: add_up main count_own
//@ twin-expect: what=* functions=add_up,count_own
#include "../lib/crew.h"

struct frame {
    long own, lent;
};

KEEP static void add_up(long *total)
{
    *total += 1;
}

KEEP static void count_own(long *own)
{
    *own += 3;
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
    struct frame frame = {0, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, adder, &frame.lent) != 0)
        return 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
#ifdef TWIN
        count_own(&frame.lent);
#else
        count_own(&frame.own);
#endif
        busy(4);
    }
    pthread_join(thread, NULL);
    return frame.lent > 0 ? 0 : 1;
}
