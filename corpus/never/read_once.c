// READ_ONCE and WRITE_ONCE in the way of Linux: a volatile cast behind a macro, with
// barriers for the order. Marked on both sides, so nothing is reported.
//@ build: O0 O2
//@ full: O2+clang O2+g3 O3 Os
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

#define barrier() __asm__ volatile("" ::: "memory")
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))

static int turn;

KEEP static int is_turn_of(int who)
{
    int seen = READ_ONCE(turn);
    barrier();
    return seen == who;
}

KEEP static void hand_to(int who)
{
    barrier();
    WRITE_ONCE(turn, who);
}

#include "../lib/turns.h"
