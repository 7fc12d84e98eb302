// A plain counter whose name begins like an atomic function's.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O2+split O2+lto O3
//@ expect: what=atomic_hits functions=count_hit,count_hit
#include "../lib/crew.h"

int atomic_hits;

KEEP static void count_hit(void)
{
    atomic_hits++;
}

REPEAT(hitter, count_hit())

int main(void)
{
    return run_pair(hitter, hitter);
}
