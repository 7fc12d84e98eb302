// A plain store against an atomic update. The update is locked, the store is not.
//@ build: O0 O2
//@ full: O2+clang O3 O2+dwarf4
//@ expect: class=race what=tokens functions=refill,take_token
#include "../lib/crew.h"

int tokens;

KEEP static int take_token(void)
{
    return __atomic_fetch_sub(&tokens, 1, __ATOMIC_RELAXED);
}

KEEP static void refill(void)
{
    tokens = 100;
}

REPEAT(taker, take_token())
REPEAT(refiller, refill())

int main(void)
{
    return run_pair(taker, refiller);
}
