// An __atomic builtin under six macros, none of whose names says what it does.
//@ build: O0 O2
//@ full: O2+clang O2+g3 O2+clang+g3 Os O3
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic in O0 O2 Os O3 O2+clang
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

#define LEVEL_1(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)
#define LEVEL_2(x, v) LEVEL_1(x, v)
#define LEVEL_3(x, v) LEVEL_2(x, v)
#define LEVEL_4(x, v) do { LEVEL_3(x, v); } while (0)
#define LEVEL_5(x, v) LEVEL_4((x), (v))
#define PUT(x, v) LEVEL_5(x, v)

#define STEP_1(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STEP_2(x) STEP_1(x)
#define STEP_3(x) (STEP_2(x))
#define STEP_4(x) STEP_3(x)
#define STEP_5(x) STEP_4(x)
#define GET(x) STEP_5(x)

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
