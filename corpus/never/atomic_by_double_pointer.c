// A relaxed-looking _Atomic object behind two pointers: `**place`.
//@ build: O0 O2
//@ full: O2+dwarf4 O2+clang O2+clang+dwarf4
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

static atomic_int turn;
static atomic_int *turn_pointer = &turn;
static atomic_int **const place = &turn_pointer;

KEEP static int is_turn_of(int who)
{
    return **place == who;
}

KEEP static void hand_to(int who)
{
    atomic_store_explicit(*place, who, memory_order_release);
}

#include "../lib/turns.h"
