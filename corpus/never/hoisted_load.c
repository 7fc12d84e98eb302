// A loop that reads a total only where it may, called where it never may. The compiler reads the total before the
// loop all the same, because that does no harm to a program by itself.
//@ build: O2
//@ full: O0 O3 Os O2+clang O3+clang O2+dwarf4 O2+g1 O2+nodebug
//@ focus: weigh set_total
//@ twin-expect: what=total functions=weigh,set_total
//@ allow: possibly-atomic
#include "../lib/crew.h"

static long total;
static unsigned char may[2][8];

KEEP static long weigh(const unsigned char *allowed)
{
    long sum = 0;
    for (int i = 0; i < 8; i++) {
#ifdef TWIN
        sum += total + allowed[i];
#else
        if (allowed[i])
            sum += total;
#endif
    }
    return sum;
}

KEEP static void set_total(long value)
{
    total = value;
}

static void owner(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        set_total(i);
        use_value(weigh(may[0]));
    }
}

static void guest(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(weigh(may[1]));
        busy(2);
    }
}

int main(void)
{
    for (int i = 0; i < 8; i++)
        may[0][i] = 1;
    return run_pair(owner, guest);
}
