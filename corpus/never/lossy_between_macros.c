// A counter that may lose counts, and is allowed to, by an atomic load and an atomic store. The block around them is
// made of macros, so that a parser which does not expand them finds no expression there.
//@ build: O2 O2+clang
//@ full: O0 O2+g3
//@ allow: possibly-atomic
//@ focus: count
//@ twin-expect: class=* what=hits functions=count,count
#include "../lib/crew.h"

#define IF if (
#define THEN ) {
#define FI ; }

static long hits;

#ifdef TWIN
KEEP static void count(long n)
{
    IF n > 0 THEN
        hits += n
    FI
}
#else
KEEP static void count(long n)
{
    IF n > 0 THEN
        long old = __atomic_load_n(&hits, __ATOMIC_RELAXED); __atomic_store_n(&hits, old + n, __ATOMIC_RELAXED)
    FI
}
#endif

REPEAT(one, count(1))
REPEAT(two, count(2))

int main(void)
{
    return run_pair(one, two);
}
