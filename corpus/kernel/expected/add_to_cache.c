// Two updates of one flag word and then a barrier: the barrier comes too late,
// since the first update of one thread can undo the second of the other. Once
// the flags have settled every store writes the value that is already there.
//@ expect: what=entry.flags functions=add_to_cache,add_to_cache
//@ race: what=entry.flags truth=harmful category=looks-redundant
#include "../lib/crew.h"

enum { FLAG_CACHED = 1, FLAG_NOT_DELETED = 2 };

static struct {
    long key;
    unsigned int flags;
} entry = {42, FLAG_NOT_DELETED};

KEEP static void add_to_cache(void)
{
    entry.flags &= ~(unsigned int)FLAG_NOT_DELETED;
    barrier();
    entry.flags |= FLAG_CACHED;
    smp_mb();
}

CREW_MODULE(add_to_cache, add_to_cache, "two updates before the barrier");
