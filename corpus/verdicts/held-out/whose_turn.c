// Two threads alternate by a variable of their own, without any atomic operation.
//@ race: what=turn truth=benign category=user-constructed-synchronisation
//@ reason: the variable is what synchronises; each thread writes it only when it is its turn
#include "../../lib/crew.h"

static int turn;
static unsigned long shared_work;

KEEP static void wait_for_turn(int me)
{
    unsigned turns = 0;
    while (turn != me)
        relax(turns++);
}

KEEP static void pass_on(int me)
{
    turn = 1 - me;
}

static void play(int me)
{
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        wait_for_turn(me);
        shared_work += 3;
        pass_on(me);
    }
}

static void first(void) { play(0); }
static void second(void) { play(1); }

int main(void)
{
    return run_pair(first, second);
}
