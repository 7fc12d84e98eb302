// The source was edited after the build: where it now says `turn = who`, the program was
// built from an atomic store. clang's line table has the checksum of the file that was
// compiled. No data race in what runs.
//@ build: O2+clang
//@ full: O0+clang O3+clang
//@ after-build: sed s/__atomic_store_n(&turn, who, __ATOMIC_RELEASE)/turn = who/;s/__atomic_load_n(&turn, __ATOMIC_ACQUIRE)/turn/
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: class=* what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static int turn;

KEEP static int is_turn_of(int who)
{
    return __atomic_load_n(&turn, __ATOMIC_ACQUIRE) == who;
}

KEEP static void hand_to(int who)
{
    __atomic_store_n(&turn, who, __ATOMIC_RELEASE);
}

#include "../lib/turns.h"
