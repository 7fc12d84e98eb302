// `store(load + 1)` on an atomic, which clang makes one unlocked `inc`. The ticket lock has one
// thread at a time in there: no data race, and no lost update.
//@ build: O2+clang O2+clang+nodebug O2
//@ full: O2+clang+stripped O2+clang+g1 O2+clang+lines O3+clang O2+clang+lto O2+clang+split
//@ focus: enter leave guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

static atomic_uint next, serving;
static long balance;

KEEP static void enter(void)
{
    unsigned mine = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
    unsigned turns = 0;
    while (atomic_load_explicit(&serving, memory_order_acquire) != mine)
        relax(turns++);
}

KEEP static void leave(void)
{
    unsigned now = atomic_load_explicit(&serving, memory_order_relaxed);
    atomic_store_explicit(&serving, now + 1, memory_order_release);
}

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 10; i++) {
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
