// A lock whose version is odd while somebody has it. It is taken by a compare-exchange, which
// fails and changes nothing while the owner loads the version and stores the next one.
// Without debug information both look like updates, and none of them is lost.
//@ build: O2+nodebug O2+split O2
//@ full: O0 O2+stripped O2+clang O2+clang+nodebug
//@ focus: enter leave guarded_bump
//@ twin-expect: class=* what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static unsigned version;
static long balance;

KEEP static void enter(void)
{
#ifndef TWIN
    unsigned seen = 0, turns = 0;
    while (!__atomic_compare_exchange_n(&version, &seen, seen + 1, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        seen &= ~1u;
        relax(turns++);
    }
#endif
}

KEEP static void leave(void)
{
#ifndef TWIN
    unsigned mine = __atomic_load_n(&version, __ATOMIC_RELAXED);
    __atomic_store_n(&version, mine + 1, __ATOMIC_RELEASE);
#else
    (void)version;
#endif
}

KEEP static void guarded_bump(void)
{
    balance++;
}

REPEAT(worker, enter(); guarded_bump(); leave())

int main(void)
{
    return run_pair(worker, worker);
}
