// A lock taken by __sync_lock_test_and_set and released by a store to a volatile, with a
// compiler barrier before it: the way that was usual before C11.
//@ build: O0 O2
//@ full: O2+clang O3 O2+g3
//@ focus: enter leave guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static volatile int lock;
static long balance;

KEEP static void enter(void)
{
    unsigned turns = 0;
    while (__sync_lock_test_and_set(&lock, 1))
        while (lock)
            relax(turns++);
}

KEEP static void leave(void)
{
    __asm__ volatile("" ::: "memory");
    lock = 0;
}

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
#ifndef TWIN
        enter();
#endif
        guarded_bump();
#ifndef TWIN
        leave();
#endif
        busy(4);
    }
    (void)enter, (void)leave;
}

int main(void)
{
    return run_pair(worker, worker);
}
