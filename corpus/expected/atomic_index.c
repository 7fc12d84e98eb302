// The index is loaded atomically, the element is stored plainly by both threads.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ expect: what=table functions=fill_slot,fill_slot
//@ silent: what=at
#include "../lib/crew.h"
#include <stdatomic.h>

static atomic_uint at;
long table[8];

KEEP static void fill_slot(long value)
{
    table[atomic_load_explicit(&at, memory_order_relaxed) & 7] = value;
}

REPEAT(filler, fill_slot(i))

int main(void)
{
    return run_pair(filler, filler);
}
