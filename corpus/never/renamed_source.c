// The source was edited after the build: the accesses look plain now, but of a variable
// that the program does not have. gcc's line table has no checksum; the names must do.
//@ build: O2
//@ full: O0 O2+dwarf4 O2+split O2+lto
//@ after-build: sed s/__atomic_store_n(&turn, who, __ATOMIC_RELEASE)/owner_index = who/;s/__atomic_load_n(&turn, __ATOMIC_ACQUIRE)/owner_index/;s/int turn;/int owner_index;/
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
