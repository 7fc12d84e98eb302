// The operators of a class are atomic, always inlined and without debug information, which Clang allows:
// their accesses are in statements that look like plain ones.
//@ build: O2+clang
//@ full: O0+clang O2
//@ allow: possibly-atomic
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

#ifdef __clang__
#define HIDDEN __attribute__((always_inline, nodebug))
#else
#define HIDDEN
#endif

struct relaxed {
    int value;
    HIDDEN void operator=(int to) { __atomic_store_n(&value, to, __ATOMIC_RELEASE); }
    HIDDEN operator int() const { return __atomic_load_n(&value, __ATOMIC_ACQUIRE); }
};

static relaxed turn;

KEEP static int is_turn_of(int who)
{
    return turn == who;
}

KEEP static void hand_to(int who)
{
    turn = who;
}

#include "../lib/turns.h"
