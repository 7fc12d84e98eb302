// The size-generic builtins, which take the value by its address.
//@ build: O0 O2
//@ full: O2+clang O2+g1 O2+nodebug
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static short turn;

KEEP static int is_turn_of(int who)
{
    short seen;
    __atomic_load(&turn, &seen, __ATOMIC_ACQUIRE);
    return seen == who;
}

KEEP static void hand_to(int who)
{
    short next = (short)who;
    __atomic_store(&turn, &next, __ATOMIC_RELEASE);
}

#include "../lib/turns.h"
