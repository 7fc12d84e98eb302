// One side casts to _Atomic, the other uses the plain element: a race of the program.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+nodebug
//@ expect: what=board.rows functions=fill,sum_up
#include "../lib/crew.h"

struct board {
    long rows[3][4];
} board;

KEEP static void fill(long value, unsigned i)
{
    *(_Atomic long *)&board.rows[i % 3][1] = value;
}

KEEP static long sum_up(unsigned i)
{
    const long *cp = board.rows[i % 3];
    return cp[1] + 1;
}

REPEAT(filler, fill(i, i))
REPEAT(reader, use_value(sum_up(i)))

int main(void)
{
    return run_pair(filler, reader);
}
