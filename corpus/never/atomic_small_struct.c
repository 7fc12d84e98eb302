// A whole structure is _Atomic; its copies are 8-byte moves.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

struct pair {
    int who, count;
};

static _Atomic struct pair turn;

KEEP static int is_turn_of(int who)
{
    struct pair seen = atomic_load_explicit(&turn, memory_order_acquire);
    return seen.who == who;
}

KEEP static void hand_to(int who)
{
    struct pair next = {who, who + 7};
    atomic_store_explicit(&turn, next, memory_order_release);
}

#include "../lib/turns.h"
