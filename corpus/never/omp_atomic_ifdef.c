// OpenMP's atomics as portable libraries write them: the pragma stands between an `#ifdef` and
// its `#endif`, and the statement after it looks plain.
//@ build: O0 O2
//@ full: O2+clang O2+g3 O2+dwarf4
//@ flags: -fopenmp
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static int turn;

KEEP static int is_turn_of(int who)
{
    int seen;
#ifdef _OPENMP
#pragma omp atomic read acquire
#endif
    seen = turn;
    return seen == who;
}

KEEP static void hand_to(int who)
{
#ifdef _OPENMP
#pragma omp atomic write release
#endif
    turn = who;
}

#include "../lib/turns.h"
