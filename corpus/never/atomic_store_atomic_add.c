// An atomic store against an atomic update. What may be lost is no data race.
//@ build: O0 O2
//@ full: O2+clang O2+nodebug O2+stripped O2+clang+nodebug O2+clang+lines
//@ focus: take_token refill note
//@ twin-expect: what=tokens functions=refill,take_token
#include "../lib/crew.h"

int tokens;
static long done[32];

KEEP static int take_token(void)
{
    return __atomic_fetch_sub(&tokens, 1, __ATOMIC_RELAXED);
}

KEEP static void refill(void)
{
#ifdef TWIN
    tokens = 100;
#else
    __atomic_store_n(&tokens, 100, __ATOMIC_RELAXED);
#endif
}

// Something plain to look at, of which each thread has its own.
KEEP static void note(unsigned who)
{
    done[who * 16]++;
}

REPEAT(taker, take_token(); note(0))
REPEAT(refiller, refill(); note(1))

int main(void)
{
    return run_pair(taker, refiller);
}
