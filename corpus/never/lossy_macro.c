// A counter that may lose counts, and is allowed to: an atomic load and an atomic store, in a macro that no
// file has. That two such updates meet shows nothing.
//@ build: O2 O2+clang
//@ full: O0
//@ flags: -DADD(x,n)=__atomic_store_n(&x,__atomic_load_n(&x,__ATOMIC_RELAXED)+(n),__ATOMIC_RELAXED)
//@ allow: possibly-atomic
//@ focus: count
//@ twin-expect: what=hits functions=count,count
#include "../lib/crew.h"

static long hits;

KEEP static void count(long n)
{
#ifdef TWIN
    hits += n;
#else
    ADD(hits, n);
#endif
}

REPEAT(one, count(1))
REPEAT(two, count(2))

int main(void)
{
    return run_pair(one, two);
}
