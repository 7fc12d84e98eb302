// A writable table that is filled before the threads start and only read by
// them. In the twin one of them also changes it.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: look_up replace
//@ twin-expect: what=table functions=look_up,replace
#include "../lib/crew.h"

static int table[64];

KEEP static int look_up(unsigned at)
{
    return table[at];
}

KEEP static void replace(unsigned at, int value)
{
    table[at] = value;
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(look_up(i & 3));
#ifdef TWIN
        replace(i & 3, (int)i);
#endif
        busy(4);
    }
}

int main(void)
{
    for (unsigned i = 0; i < 64; i++)
        replace(i, (int)(i * i));
    return run_pair(reader, reader);
}
