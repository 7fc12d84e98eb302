// std::atomic without a word of it in the statement: `turn == who`, `*turn = who`, and a
// reference to it.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O2+clang+dwarf4 O2+clang+lines O2+nodebug O2+split O2+lto
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <atomic>

struct state {
    long pad;
    std::atomic<short> turn;
};

static state shared_state;
static std::atomic<short> &turn = shared_state.turn;

KEEP static int is_turn_of(int who)
{
    return turn == who;
}

KEEP static void hand_to(int who)
{
    turn = static_cast<short>(who);
}

#include "../lib/turns.h"
