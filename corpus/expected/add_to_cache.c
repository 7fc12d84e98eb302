// Two updates of one flag word and then a barrier: the barrier comes too late,
// since the first update of one thread can undo the second of the other. Once
// the flags have settled every store writes the value that is already there.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=entry.flags functions=add_to_cache,add_to_cache
#include "../lib/crew.h"

enum { FLAG_CACHED = 1, FLAG_NOT_DELETED = 2 };

struct {
    long key;
    unsigned flags;
} entry = {42, FLAG_NOT_DELETED};

KEEP static void add_to_cache(void)
{
    entry.flags &= ~(unsigned)FLAG_NOT_DELETED;
    __asm__ volatile("" ::: "memory");
    entry.flags |= FLAG_CACHED;
    __sync_synchronize();
}

static void inserter(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        add_to_cache();
        busy(4);
    }
}

int main(void)
{
    return run_pair(inserter, inserter);
}
