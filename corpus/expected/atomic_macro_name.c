// A macro called ATOMIC_INC that is not atomic, as in builds for one processor.
//@ build: O0 O2 O2+g3
//@ full: O2+clang O2+clang+g3
//@ expect: what=hits functions=count_hit,count_hit
#include "../lib/crew.h"

#define ATOMIC_INC(x) ((x)++)

int hits;

KEEP static void count_hit(void)
{
    ATOMIC_INC(hits);
}

REPEAT(hitter, count_hit())

int main(void)
{
    return run_pair(hitter, hitter);
}
