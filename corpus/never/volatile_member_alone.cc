// A volatile member, named alone inside the class: one thread sets it, another waits for it.
// Marked on both sides, so nothing is reported.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O2+split O3
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

class board {
    long unused = 0;
    volatile int state = 0;

public:
    KEEP bool is(int wanted) const { return state == wanted; }
    KEEP void set(int to)
    {
        __asm__ volatile("" ::: "memory");
        state = to;
    }
};

static board the_board;

KEEP static int is_turn_of(int who)
{
    return the_board.is(who);
}

KEEP static void hand_to(int who)
{
    the_board.set(who);
}

#include "../lib/turns.h"
