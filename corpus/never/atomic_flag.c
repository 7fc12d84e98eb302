// A lock made of atomic_flag, whose clear is a plain store in the binary.
//@ build: O0 O2
//@ full: O2+clang O2+nodebug O2+stripped O2+musl
//@ focus: enter leave guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

static atomic_flag lock = ATOMIC_FLAG_INIT;
static long balance;

KEEP static void enter(void)
{
    for (unsigned turns = 0; atomic_flag_test_and_set_explicit(&lock, memory_order_acquire); turns++)
        relax(turns);
}

KEEP static void leave(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
#ifndef TWIN
        enter();
#endif
        guarded_bump();
#ifndef TWIN
        leave();
#endif
        busy(4);
    }
    (void)enter, (void)leave;
}

int main(void)
{
    return run_pair(worker, worker);
}
