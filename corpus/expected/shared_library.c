// The race is inside a shared library that the program is linked to.
//@ build: O0 O2 O2+stripped+nopie
//@ full: O2+clang
//@ lib: lib/tally.c as libtally.so linked
//@ expect: what=tally_total functions=tally_add,tally_read
#include "../lib/crew.h"

extern void tally_add(long amount);
extern long tally_read(void);

static void adder(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        tally_add(1);
        busy(4);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(tally_read());
        busy(4);
    }
}

int main(void)
{
    return run_pair(adder, reader);
}
