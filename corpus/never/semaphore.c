// A semaphore used as a lock.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <semaphore.h>

static sem_t free_places;
static long balance;

static void enter(void)
{
#ifndef TWIN
    while (sem_wait(&free_places) != 0)
        ;
#endif
}

static void leave(void)
{
#ifndef TWIN
    sem_post(&free_places);
#endif
}

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        enter();
        guarded_bump();
        leave();
        busy(8);
    }
}

int main(void)
{
    sem_init(&free_places, 0, 1);
    return run_pair(worker, worker);
}
