// The macro is plain at first, and is defined anew before it is used: what counts is the
// definition in force at the line.
//@ build: O2 O2+g3
//@ full: O0 O2+clang O2+clang+g3
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static int turn;

#define TURN turn

static void start(void)
{
    TURN = 0;
}

#undef TURN
#define TURN (*(_Atomic int *)&turn)

KEEP static int is_turn_of(int who)
{
    return TURN == who;
}

KEEP static void hand_to(int who)
{
    if (who > 1)
        start();
    TURN = who;
}

#include "../lib/turns.h"
