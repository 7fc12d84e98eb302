// A variable of a function is lent to a thread, which updates it under a lock. Its owner looks
// at it in its own frame, under the same lock. In the twin there is no lock.
//@ build: O0 O2
//@ focus: owner step
//@ twin-expect: what=* region=stack functions=owner,step
#include "../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void enter(void)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
#else
    (void)lock;
    busy(1);
#endif
}

static void leave(void)
{
#ifndef TWIN
    pthread_mutex_unlock(&lock);
#else
    busy(1);
#endif
}

KEEP static void step(unsigned *progress)
{
    enter();
    *progress += 1;
    leave();
}

static void *worker(void *progress)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        step(progress);
        busy(4);
    }
    return NULL;
}

KEEP static int owner(void)
{
    unsigned progress = 0, seen = 0;
    pthread_t thread;

    if (pthread_create(&thread, NULL, worker, &progress) != 0)
        return 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        enter();
        seen += progress;
        leave();
        busy(4);
    }
    pthread_join(thread, NULL);
    return seen + progress == 0;
}

int main(void)
{
    return owner();
}
