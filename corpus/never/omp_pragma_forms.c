// OpenMP's atomic constructs in the shapes that a reader of the text can miss: `_Pragma` inside a macro, a
// pragma that goes on over two lines, a comment between the pragma and its statement, and a block.
//@ build: O2
//@ full: O0 O3 O2+g1 O2+dwarf4
//@ flags: -fopenmp
//@ focus: publish take note
//@ twin-expect: what=level functions=publish,take
//@ allow: possibly-atomic
#include "../lib/crew.h"

#define SET(place, value) _Pragma("omp atomic write") place = value
#define GET(place, into) _Pragma("omp atomic read") into = place

static long level, depth, turn, width;
static long notes[32];

KEEP static void publish(long i)
{
#ifdef TWIN
    level = i;
#else
    SET(level, i);
#pragma omp \
    atomic write
    depth = i;
#pragma omp atomic write
    // the newest turn
    turn = i;
    long old;
#pragma omp atomic capture
    {
        old = width;
        width = i;
    }
    use_value(old);
#endif
}

KEEP static long take(void)
{
    long a, b = 0, c = 0, d = 0;
#ifdef TWIN
    a = level;
#else
    GET(level, a);
#pragma omp atomic \
    read
    b = depth;
#pragma omp atomic read
    /* whatever is newest */
    c = turn;
#pragma omp atomic read seq_cst
    d = width;
#endif
    return a + b + c + d;
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, publish(i); note(0))
REPEAT(reader, use_value(take()); note(1))

int main(void)
{
    use_value(depth + turn + width);
    return run_pair(writer, reader);
}
