// The source is gone after the build, as on most machines that a program runs on.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4
//@ after-build: remove
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: class=* what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static int turn;

KEEP static int is_turn_of(int who)
{
    return __atomic_load_n(&turn, __ATOMIC_ACQUIRE) == who;
}

KEEP static void hand_to(int who)
{
    __atomic_store_n(&turn, who, __ATOMIC_RELEASE);
}

#include "../lib/turns.h"
