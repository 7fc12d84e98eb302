// Both threads do the same to a flag, in two steps with a barrier.
//@ race: what=entry_flags truth=harmful category=looks-redundant
//@ reason: the first step writes back an old bit after the other thread set it
#include "../lib/crew.h"

static unsigned entry_flags;
static unsigned broken;

KEEP static void add_to_cache(void)
{
    entry_flags &= ~4u;
    __asm__ volatile("" ::: "memory");
    entry_flags |= 8u;
    __asm__ volatile("mfence" ::: "memory");
    if (!(entry_flags & 8u))
        broken++;
}

REPEAT(adder, add_to_cache())

int main(void)
{
    return run_pair(adder, adder);
}
