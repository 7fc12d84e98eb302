// A balance guarded by a mutex.
//@ build: O0 O2 O2+stripped O2+static
//@ full: O2+clang O3
//@ focus: guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balance;

static void enter(void)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
#else
    (void)lock;
#endif
}

static void leave(void)
{
#ifndef TWIN
    pthread_mutex_unlock(&lock);
#endif
}

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        enter();
        guarded_bump();
        leave();
        busy(4);
    }
}

int main(void)
{
    return run_pair(worker, worker);
}
