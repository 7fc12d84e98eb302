// Plain and atomic variables are declared on one line. Before DWARF 5 the debug information does
// not tell which are atomic: the text does.
//@ build: O0+dwarf4 O2+dwarf4
//@ full: O2+dwarf4+clang O2+dwarf5
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

static int first = 1; static _Atomic int turn;

KEEP static int is_turn_of(int who)
{
    return atomic_load_explicit(&turn, memory_order_acquire) + first == who + 1;
}

KEEP static void hand_to(int who)
{
    turn = who;
}

#include "../lib/turns.h"
