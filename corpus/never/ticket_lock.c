// A ticket lock: tickets are drawn by a locked add, but waiting and handing on
// are a plain load and a plain store in the binary. A waiter lets the processor
// go, since a lock that is fair to a thread without one would take for ever.
//@ build: O0 O2 O2+stripped
//@ full: O2+clang O3
//@ focus: guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <sched.h>

static struct {
    unsigned next;
    unsigned serving;
} tickets;

static long balance;

static void enter(void)
{
#ifndef TWIN
    unsigned mine = __atomic_fetch_add(&tickets.next, 1, __ATOMIC_RELAXED);
    for (unsigned turns = 0; __atomic_load_n(&tickets.serving, __ATOMIC_ACQUIRE) != mine; turns++) {
        if (turns < 100)
            busy(1);
        else
            sched_yield();
    }
#else
    (void)tickets;
#endif
}

static void leave(void)
{
#ifndef TWIN
    unsigned mine = __atomic_load_n(&tickets.serving, __ATOMIC_RELAXED);
    __atomic_store_n(&tickets.serving, mine + 1, __ATOMIC_RELEASE);
#endif
}

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        enter();
        guarded_bump();
        leave();
        busy(8);
    }
}

int main(void)
{
    return run_pair(worker, worker);
}
