// Atomic loads and stores in statement expressions, with the generic builtins that take a
// pointer to the value, in the middle of larger expressions.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: look raise note
//@ twin-expect: what=gauge.level functions=look,raise
#include "../lib/crew.h"

struct gauge {
    long other;
    long level;
} gauge;

KEEP static long look(long scale)
{
#ifdef TWIN
    return scale * gauge.level + 3;
#else
    return scale * ({ long seen; __atomic_load(&gauge.level, &seen, __ATOMIC_RELAXED); seen; }) + 3;
#endif
}

KEEP static void raise(long by)
{
#ifdef TWIN
    gauge.level = by + 1;
#else
    long next = ({ long now; __atomic_load(&gauge.level, &now, __ATOMIC_ACQUIRE); now + by; });
    (void)(by > 2 ? ({ __atomic_store(&gauge.level, &next, __ATOMIC_RELEASE); 1; }) : 0);
#endif
}

static long notes[32];

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(raiser, raise(i % 5 + 1); note(0))
REPEAT(looker, use_value(look(i)); note(1))

int main(void)
{
    return run_pair(raiser, looker);
}
