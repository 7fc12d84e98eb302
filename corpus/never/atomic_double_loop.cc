// A sum of doubles that a loop of compare_exchange_weak adds to, read inside a conditional
// expression. libstdc++ loads and stores the double through a buffer of bytes.
//@ build: O2 O2+clang
//@ full: O0 O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: add_to_sum look reset note
// Clang loads `sum` before it looks whether it is wanted: then that load shows nothing.
//@ twin-expect: what=sum functions=add_to_sum,~look class=*
//@ twin-expect: what=sum functions=add_to_sum,reset
#include "../lib/crew.h"
#include <atomic>

#ifdef TWIN
double sum;
#else
std::atomic<double> sum{0.0};
#endif

KEEP static void add_to_sum(double more)
{
#ifdef TWIN
    sum = sum + more;
#else
    double seen = sum.load(std::memory_order_relaxed);
    while (!sum.compare_exchange_weak(seen, seen + more, std::memory_order_release,
                                      std::memory_order_relaxed))
        ;
#endif
}

KEEP static double look(bool really)
{
    return really ? sum + 1.0 : 0.5;
}

KEEP static void reset(double to)
{
    sum = to;
}

static long notes[32];

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(adder, add_to_sum(i); note(0))
REPEAT(looker, use_value(look(i % 8 != 0) > 3.0); if (i % 16 == 0) reset(1.5); note(1))

int main()
{
    return run_pair(adder, looker);
}
