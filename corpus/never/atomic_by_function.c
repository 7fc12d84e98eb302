// An _Atomic object reached through a function that returns its address: `*turn_of(0)`.
// DWARF 4 omits _Atomic, and what a function returns has no declaration to look at: the type
// is unknown there, which is no race, but not nothing either.
//@ allow: possibly-atomic in *+dwarf4
//@ build: O0 O2 O2+dwarf4
//@ full: O2+clang O2+clang+dwarf4 O3 O2+split
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static _Atomic int turns[2];

KEEP static _Atomic int *turn_at(int index)
{
    return &turns[index];
}

KEEP static int is_turn_of(int who)
{
    return *turn_at(1) == who;
}

KEEP static void hand_to(int who)
{
    *turn_at(1) = who;
}

#include "../lib/turns.h"
