// Lines were taken out of the source after the build, so that the lines of the atomic
// accesses now show other functions, which are plain and never run.
//@ build: O2 O2+clang
//@ full: O0 O2+dwarf4 O2+clang+dwarf4
//@ after-build: sed /^.. line/d
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: class=* what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static int turn;

KEEP static int is_turn_of(int who)
{
    return __atomic_load_n(&turn, __ATOMIC_ACQUIRE) == who;
}
// line
// line
// line
// line
// line

int is_turn_of_one_thread(int who)
{
    return turn == who;
}
// line

KEEP static void hand_to(int who)
{
    __atomic_store_n(&turn, who, __ATOMIC_RELEASE);
}

void hand_to_one_thread(int who)
{
    turn = who;
}

#include "../lib/turns.h"
