// Peterson's lock: three words, sequentially consistent, and no locked instruction but the
// exchange that orders a store.
//@ build: O0 O2
//@ full: O2+clang O3 O2+nodebug O2+stripped
//@ focus: enter leave guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

static atomic_bool wants[2];
static atomic_int last;
static long balance;

KEEP static void enter(int me)
{
    wants[me] = 1;
    last = me;
    for (unsigned turns = 0; wants[1 - me] && last == me; turns++)
        relax(turns);
}

KEEP static void leave(int me)
{
    atomic_store_explicit(&wants[me], 0, memory_order_release);
}

KEEP static void guarded_bump(void)
{
    balance++;
}

static void work(int me)
{
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
#ifndef TWIN
        enter(me);
#endif
        guarded_bump();
#ifndef TWIN
        leave(me);
#endif
        busy(4);
    }
    (void)enter, (void)leave, (void)me;
}

static void left_side(void)
{
    work(0);
}

static void right_side(void)
{
    work(1);
}

int main(void)
{
    return run_pair(left_side, right_side);
}
