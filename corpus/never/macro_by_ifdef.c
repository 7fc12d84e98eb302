// The first definition of the macros is plain, but it is for machines with one processor.
// The one in force is an __atomic builtin: no data race.
//@ build: O2 O2+g3
//@ full: O0 O2+clang O2+clang+g3 O2+dwarf4
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic in O0 O2 O2+clang O2+dwarf4
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

#ifdef ONE_PROCESSOR
#define GET(x) (x)
#define PUT(x, v) ((x) = (v))
#else
#define GET(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define PUT(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)
#endif

static int turn;

KEEP static int is_turn_of(int who)
{
    return GET(turn) == who;
}

KEEP static void hand_to(int who)
{
    PUT(turn, who);
}

#include "../lib/turns.h"
