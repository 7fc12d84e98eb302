// The same volatile member by pointer, by an array and inside a nested structure.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O2+split
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

struct slot {
    int pad;
    struct {
        volatile short state;
    } inner;
};

static struct slot slots[3];

KEEP static int is_turn_of(int who)
{
    const struct slot *p = slots;
    return p[2].inner.state == who;
}

KEEP static void hand_to(int who)
{
    struct slot *p = &slots[2];
    __asm__ volatile("" ::: "memory");
    p->inner.state = (short)who;
}

#include "../lib/turns.h"
