// clang keeps only the member that is used of a static structure, under another name. The
// debug information still says which member it is.
//@ build: O2+clang
//@ full: O3+clang O2+clang+dwarf4 O2
//@ expect: what=entry.flags functions=set_flag,set_flag
#include "../lib/crew.h"

static struct {
    long key;
    unsigned flags;
} entry = {42, 2};

KEEP static void set_flag(unsigned flag)
{
    entry.flags ^= flag;
}

REPEAT(setter, set_flag(1 + (i & 1)))

int main(void)
{
    return run_pair(setter, setter);
}
