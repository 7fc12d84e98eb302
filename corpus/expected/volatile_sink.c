// A plain read goes into a volatile sink: the sink is volatile, the shared word is not.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O3
//@ expect: what=shared functions=sample_shared,change_shared
#include "../lib/crew.h"

int shared;
static __thread volatile int sink;

KEEP static void sample_shared(void)
{
    sink = shared;
}

KEEP static void change_shared(int to)
{
    shared = to;
}

REPEAT(sampler, sample_shared())
REPEAT(changer, change_shared((int)i))

int main(void)
{
    return run_pair(sampler, changer);
}
