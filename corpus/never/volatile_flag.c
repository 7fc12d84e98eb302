// A volatile flag with one writer, beside a volatile counter that one thread alone updates and
// another reads. Marked on both sides and no update against an update: nothing is reported.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O3
//@ focus: count_up look note
//@ twin-expect: what=ticks functions=count_up,count_up
#include "../lib/crew.h"

static volatile long ticks;
static long notes[32];

KEEP static void count_up(void)
{
    ticks++;
}

KEEP static long look(void)
{
    return ticks;
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(ticker, count_up(); note(0))
#ifdef TWIN
REPEAT(looker, count_up(); use_value(look()); note(1))
#else
REPEAT(looker, use_value(look()); note(1))
#endif

int main(void)
{
    return run_pair(ticker, looker);
}
