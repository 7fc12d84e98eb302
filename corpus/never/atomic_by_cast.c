// Plain members that every access reaches through a pointer to _Atomic: a pointer that walks,
// an element of a row, a member behind a cast.
//@ build: O2 O2+dwarf4
//@ full: O0 O2+clang O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ allow: possibly-atomic in *+dwarf4
//@ focus: fill sum_up copy_across note
//@ twin-expect: what=board functions=~fill,~sum_up
#include "../lib/crew.h"

struct board {
    long rows[3][4];
    int ready;
} board;

#ifdef TWIN
typedef long cell;
typedef int word;
#else
typedef _Atomic long cell;
typedef _Atomic int word;
#endif

static long notes[32];

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

KEEP static void fill(long value)
{
    cell *cp = (cell *)board.rows[0];
    cell *end = cp + 12;
    while (cp != end)
        *cp++ = value;
    *(word *)&board.ready = 1;
}

KEEP static long sum_up(unsigned i)
{
    cell(*grid)[4] = (cell(*)[4])board.rows;
    const cell *cp = &grid[i % 3][0];
    long sum = *(const word *)&board.ready ? *cp : 1;
    return sum + cp[1] + grid[i % 3][i % 4] + *(2 + cp);
}

KEEP static void copy_across(unsigned i)
{
    cell(*grid)[4] = (cell(*)[4])board.rows;
    grid[i % 3][i % 4] = grid[(i + 1) % 3][(i + 2) % 4];
}

REPEAT(filler, fill(i); note(0))
REPEAT(reader, use_value(sum_up(i)); copy_across(i); note(1))

int main(void)
{
    return run_pair(filler, reader);
}
