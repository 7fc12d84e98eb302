// One arm of a `?:` in a loop on one line. Compilers load it once, before the loop, although its
// condition is never true: the source does not read what the other thread writes.
//@ build: O2
//@ full: O1 O3 O2+clang O3+clang Os+clang O2+dwarf4
//@ focus: sum_up set
//@ allow: possibly-atomic
// Clang gives the load, which it makes before the loop, no line.
//@ doubt: *+clang
//@ twin-expect: what=rate.extra functions=sum_up,set
#include "../lib/crew.h"

static struct { long base, extra; } rate;
static int levels[32];

KEEP static long sum_up(const int *levels, int count)
{
    long sum = 0;
#ifdef TWIN
    for (int i = 0; i < count; i++) sum += levels[i] + rate.extra;
#else
    for (int i = 0; i < count; i++) sum += levels[i] > 5 ? rate.extra : 1;
#endif
    return sum;
}

KEEP static void set(long value)
{
    rate.extra = value;
}

REPEAT(reader, use_value(sum_up(levels, 32)))
REPEAT(writer, set(i))

int main(void)
{
    return run_pair(writer, reader);
}
