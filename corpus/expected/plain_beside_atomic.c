// One member is atomic, its neighbour is not, and both are used in one statement.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O3
//@ expect: what=gate.plain functions=pass,pass
//@ silent: what=gate.counted
#include "../lib/crew.h"
#include <stdatomic.h>

struct {
    atomic_int counted;
    int plain;
} gate;

KEEP static int pass(int more)
{
    return gate.plain += more + atomic_fetch_add_explicit(&gate.counted, 1, memory_order_relaxed);
}

REPEAT(passer, use_value(pass((int)i & 1)))

int main(void)
{
    return run_pair(passer, passer);
}
