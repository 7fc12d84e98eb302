// A macro that stands for an _Atomic member, as errno does for a word of the thread.
//@ build: O0 O2
//@ full: O2+dwarf4 O2+clang O2+g3 O2+clang+g3
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

static struct {
    long unused;
    struct {
        _Atomic unsigned char turn;
    } inner[2];
} state;

#define current_turn (state.inner[1].turn)

KEEP static int is_turn_of(int who)
{
    return current_turn == who;
}

KEEP static void hand_to(int who)
{
    atomic_store_explicit(&current_turn, (unsigned char)who, memory_order_release);
}

#include "../lib/turns.h"
