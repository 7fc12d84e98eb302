// OpenMP's atomics as attributes of C++.
//@ build: O0 O2
//@ flags: -fopenmp -std=c++17
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static int turn;

KEEP static int is_turn_of(int who)
{
    int seen;
    [[omp::directive(atomic read acquire)]] seen = turn;
    return seen == who;
}

KEEP static void hand_to(int who)
{
    [[omp::directive(atomic write release)]]
    turn = who;
}

#include "../lib/turns.h"
