// Volatile elements behind indices and functions: one thread writes, the other reads.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O0+clang O2+clang+dwarf4 O3+clang+g3
//@ focus: advance look note
//@ twin-expect: what=rows functions=advance,look
#include "../lib/crew.h"

#ifdef TWIN
static long rows[4][8];
#define place long
#else
static volatile long rows[4][8];
typedef volatile long place;
#endif

static inline place *pick(unsigned i)
{
    return &rows[i / 8 % 4][i % 8];
}

KEEP static void advance(unsigned i)
{
    *pick(i) = *pick(i + 1) + 1;
    rows[i % 4][3] = rows[(i + 1) % 4][i % 8] > 5 ? 1 : rows[0][0] + 2;
}

KEEP static long look(unsigned i)
{
    return rows[i % 4][i % 8] + (*pick(i) ? *pick(i + 9) : pick(i)[1 - (i % 2)]);
}

static long notes[32];

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, advance(i); note(0))
REPEAT(reader, use_value(look(i)); note(1))

int main(void)
{
    return run_pair(writer, reader);
}
