// A number that a loop adds only where it may, called where it never may. A vectorised loop loads it
// once, into all elements of a register, and drops the sums that it should not have made.
//@ build: O3
//@ full: O2 O3+clang O2+clang O3+dwarf4
//@ flags: -mavx2
//@ focus: weigh set_total
//@ allow: possibly-atomic
//@ twin-expect: what=total functions=weigh,set_total
#include "../lib/crew.h"

static long total;
static unsigned char may[64];

KEEP static long weigh(const unsigned char *allowed)
{
    long sum = 0;
#ifdef TWIN
    for (int i = 0; i < 64; i++) sum += total + allowed[i];
#else
    for (int i = 0; i < 64; i++) if (allowed[i]) sum += total;
#endif
    return sum;
}

KEEP static void set_total(long value)
{
    total = value;
}

REPEAT(writer, set_total(i))
REPEAT(reader, use_value(weigh(may)))

int main(void)
{
    if (!__builtin_cpu_supports("avx2"))
        return 77;
    return run_pair(writer, reader);
}
