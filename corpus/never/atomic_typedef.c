// _Atomic under a typedef whose name says nothing, in a structure reached by a pointer.
//@ build: O0 O2
//@ full: O2+dwarf4 O2+clang O2+split O2+clang+lines O2+nodebug O2+stripped
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

typedef _Atomic(int) word;
typedef struct {
    int pad;
    word whose;
} board;
typedef board *board_pointer;

static board the_board;
static board_pointer everywhere = &the_board;

KEEP static int is_turn_of(int who)
{
    return atomic_load_explicit(&everywhere->whose, memory_order_acquire) == who;
}

KEEP static void hand_to(int who)
{
    atomic_store_explicit(&everywhere->whose, who, memory_order_release);
}

#include "../lib/turns.h"
