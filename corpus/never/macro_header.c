// The turn is read and set by macros from a header that has nothing but macros, so that
// the line tables do not list it. Both are __atomic builtins: no data race.
//@ build: O0 O2 O2+g3
//@ full: O2+clang O2+clang+g3 O2+dwarf4 O2+split O2+g1 O2+clang+lines O2+lto O2+debugfile
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic in O0 O2 O2+clang O2+dwarf4 O2+split O2+lto O2+debugfile
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include "../lib/macro_atomics.h"

static int turn;

KEEP static int is_turn_of(int who)
{
    return AO_READ(turn) == who;
}

KEEP static void hand_to(int who)
{
    AO_SET(turn, who);
}

#include "../lib/turns.h"
