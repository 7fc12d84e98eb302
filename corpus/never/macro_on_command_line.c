// The macros that read and set the turn are defined on the command line: no file has them.
// Both are __atomic builtins: no data race.
//@ build: O2 O2+g3
//@ full: O0 O2+clang O3+clang+g3 O2+dwarf4 O2+nodebug
//@ flags: -DGET(x)=__atomic_load_n(&x,__ATOMIC_ACQUIRE)
//@ flags: -DPUT(x,v)=__atomic_store_n(&x,v,__ATOMIC_RELEASE)
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic in O0 O2 O2+clang O2+dwarf4
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

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
