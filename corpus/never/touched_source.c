// A counter that may lose counts, and is allowed to, by an atomic load and an atomic store. The source is younger than
// the program, as after an edit, so that nothing tells what was compiled.
//@ build: O2
//@ full: O0 O2+dwarf4 Os
//@ after-build: touch
//@ allow: possibly-atomic
//@ focus: count
//@ twin-expect: class=* what=hits functions=count,count
#include "../lib/crew.h"

static long hits;

KEEP static void count(long n)
{
#ifdef TWIN
    hits += n;
#else
    __atomic_store_n(&hits, __atomic_load_n(&hits, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
#endif
}

REPEAT(one, count(1))
REPEAT(two, count(2))

int main(void)
{
    return run_pair(one, two);
}
