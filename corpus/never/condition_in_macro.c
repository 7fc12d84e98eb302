// A macro reads on a condition, which its use does not show. Compilers read ahead of it.
//@ build: O2 Os
//@ full: O0 O3 O2+g3 O2+clang O2+dwarf4 O2+nodebug
//@ focus: sum_up weigh set
//@ allow: possibly-atomic
//@ twin-expect: what=rate.extra functions=sum_up,set
#include "../lib/crew.h"

static struct {
    long base, extra;
} rate;
static long total;
static int levels[32];

#define EXTRA(level) ((level) > 5 ? rate.extra : 1)
#define ADD_IF(may, value)  \
    do {                    \
        if (may)            \
            sum += (value); \
    } while (0)

KEEP static long sum_up(const int *levels, int count)
{
    long sum = 0;
    for (int i = 0; i < count; i++)
#ifdef TWIN
        sum += levels[i] + rate.extra;
#else
        sum += EXTRA(levels[i]);
#endif
    return sum;
}

KEEP static long weigh(const int *may, int count)
{
    long sum = 0;
    for (int i = 0; i < count; i++)
        ADD_IF(may[i], total);
    return sum;
}

KEEP static void set(long to)
{
    rate.extra = to;
    total = to;
}

REPEAT(reader, use_value(sum_up(levels, 32)); use_value(weigh(levels, 32)))
REPEAT(writer, set(i))

int main(void)
{
    return run_pair(reader, writer);
}
