// A hand-made spin lock: taken by an exchange, released by a plain store that
// only the source calls atomic.
//@ build: O0 O2 O2+stripped
//@ full: O2+clang O3
//@ focus: guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static int lock;
static long balance;

static void enter(void)
{
#ifndef TWIN
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&lock, __ATOMIC_RELAXED))
            busy(1);
    }
#else
    (void)lock;
#endif
}

static void leave(void)
{
#ifndef TWIN
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
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
