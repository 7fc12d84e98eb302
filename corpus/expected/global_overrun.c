// An index that leads out of an array, to a variable of another thread: the report says what
// each side means. Compilers order variables as they like, so the index is computed.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=limit pointee=samples functions=record,raise_limit
#include "../lib/crew.h"

static int samples[8];
static int limit;

KEEP static void record(long at, int value)
{
    samples[at] = value; // meant: at < 8
}

KEEP static int raise_limit(int more)
{
    limit += more;
    return limit;
}

KEEP static long beyond(void)
{
    return ((char *)&limit - (char *)samples) / (long)sizeof samples[0];
}

REPEAT(recorder, record(beyond(), (int)i))
REPEAT(raiser, use_value(raise_limit(1)))

int main(void)
{
    return run_pair(recorder, raiser);
}
