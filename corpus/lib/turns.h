// Two workers take turns at a balance. The program defines who may: `is_turn_of` and
// `hand_to` are all that orders the two, by a load and a store without any lock.
// The twin asks neither.
#include "crew.h"

static long balance;

KEEP static void guarded_bump(void)
{
    balance++;
}

static void take_turns(int me)
{
#ifdef TWIN
    for (unsigned i = 0; i < ROUNDS; i++) {
        guarded_bump();
        busy(4);
    }
    (void)me, (void)is_turn_of, (void)hand_to;
#else
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        for (unsigned turns = 0; !is_turn_of(me); turns++)
            relax(turns);
        guarded_bump();
        hand_to(1 - me);
    }
#endif
}

static void first_worker(void)
{
    take_turns(0);
}

static void second_worker(void)
{
    take_turns(1);
}

int main(void)
{
    return run_pair(first_worker, second_worker);
}
