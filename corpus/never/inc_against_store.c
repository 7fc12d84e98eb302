// One thread counts by `store(load + 1)`, which clang makes one unlocked `inc`; another resets
// by a relaxed store. Counts may be lost, as the program's author knows: no data race.
//@ build: O2+clang O2+clang+nodebug
//@ full: O2 O0 O2+clang+stripped O2+clang+lines O3+clang
//@ focus: count reset note
//@ twin-expect: what=counter functions=count,reset
#include "../lib/crew.h"
#include <stdatomic.h>

#ifdef TWIN
long counter;
#else
atomic_long counter;
#endif
static long notes[32];

KEEP static void count(void)
{
#ifdef TWIN
    counter = counter + 1;
#else
    long now = atomic_load_explicit(&counter, memory_order_relaxed);
    atomic_store_explicit(&counter, now + 1, memory_order_relaxed);
#endif
}

KEEP static void reset(void)
{
#ifdef TWIN
    counter = 0;
#else
    atomic_store_explicit(&counter, 0, memory_order_relaxed);
#endif
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(counting, count(); note(0))
REPEAT(resetting, reset(); note(1))

int main(void)
{
    return run_pair(counting, resetting);
}
