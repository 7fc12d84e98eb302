// A counter of a function is lent to a thread, which adds to it atomically. Its owner adds to
// it in its own frame, and plainly: only that side can be sampled.
//@ build: O0 O2
//@ expect: what=* region=stack frame=owner functions=owner,step
#include "../lib/crew.h"

KEEP static void step(unsigned *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
}

static void *worker(void *counter)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        step(counter);
        busy(4);
    }
    return NULL;
}

KEEP static int owner(void)
{
    unsigned counter = 0;
    pthread_t thread;

    if (pthread_create(&thread, NULL, worker, &counter) != 0)
        return 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        counter += 1;
        busy(4);
    }
    pthread_join(thread, NULL);
    return counter == 0;
}

int main(void)
{
    return owner();
}
