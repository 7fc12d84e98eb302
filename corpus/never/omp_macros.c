// `omp atomic` by macros that are empty without OpenMP, in front of a statement and of a block. Which
// definition is in force is not known, so nothing after them is known to be plain.
//@ build: O0 O2
//@ full: O3 O2+g3 O2+dwarf4 O0+clang O2+clang O2+clang+g3
//@ flags: -fopenmp
//@ focus: peek set swap note
//@ allow: possibly-atomic
//@ twin-expect: what=level functions=set,peek
#include "../lib/crew.h"

#ifdef _OPENMP
#define PRAGMA(words) _Pragma(#words)
#define ATOMIC_READ PRAGMA(omp atomic read)
#define ATOMIC_WRITE _Pragma("omp atomic write")
#define ATOMIC(clause) PRAGMA(omp atomic clause)
#else
#define ATOMIC_READ
#define ATOMIC_WRITE
#define ATOMIC(clause)
#endif

static long level;
static long notes[32];

#ifdef TWIN
KEEP static void set(long value)
{
    level = value;
}

KEEP static long peek(void)
{
    return level;
}
#else
KEEP static void set(long value)
{
    ATOMIC_WRITE level = value;
}

KEEP static long peek(void)
{
    long seen;
    ATOMIC_READ
    seen = level;
    return seen;
}
#endif

KEEP static long swap(long value)
{
    long old;
    ATOMIC(capture) {
        old = level;
        level = value;
    }
    return old;
}

KEEP static void note(int who)
{
    notes[who * 16]++;
}

int main(void)
{
#pragma omp parallel for num_threads(2)
    for (int who = 0; who < 2; who++) {
        for (unsigned i = 0; i < ROUNDS; i++) {
            if (who)
                set(i);
            else
                use_value(peek());
            if ((i & 15) == 0)
                use_value(swap(i));
            note(who);
            busy(4);
        }
    }
    return 0;
}
