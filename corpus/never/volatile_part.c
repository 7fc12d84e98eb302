// The turn is part of a volatile object, reached by the part's address, as an array, and in an anonymous
// member that is volatile as a whole. No member itself is volatile.
//@ build: O2 O2+clang
//@ full: O0 O0+clang O3 O2+dwarf4
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

typedef volatile struct {
    int pad;
    struct {
        short pad;
        short turn;
    } inner;
    short ring[4];
} registers;

struct device {
    int number;
    volatile struct {
        short pad;
        short turn;
    };
};

static registers bank;
static registers *registered = &bank;
static struct device one;
static struct device *device = &one;

KEEP static int is_turn_of(int who)
{
    return (&registered->inner)->turn == who && *(registered->ring + 2) == who && device->turn == who;
}

KEEP static void hand_to(int who)
{
    __asm__ volatile("" ::: "memory");
    (&registered->inner)->turn = (short)who;
    *(registered->ring + 2) = (short)who;
    device->turn = (short)who;
}

#include "../lib/turns.h"
