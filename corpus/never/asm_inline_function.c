// A lock in inline assembly inside small functions that are inlined: taken by xchg,
// released by a plain mov, which is a release on this processor.
//@ build: O2
//@ full: O0 O2+clang O2+stripped O3+clang
//@ focus: enter leave guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static int lock;
static long balance;

static inline int exchange(int *place, int value)
{
    __asm__ volatile("xchgl %0, %1" : "+r"(value), "+m"(*place)::"memory");
    return value;
}

static inline int load(const int *place)
{
    int value;
    __asm__ volatile("movl %1, %0" : "=r"(value) : "m"(*place) : "memory");
    return value;
}

static inline void store(int *place, int value)
{
    __asm__ volatile("movl %1, %0" : "=m"(*place) : "r"(value) : "memory");
}

KEEP static void enter(void)
{
    for (unsigned turns = 0; exchange(&lock, 1); turns++)
        while (load(&lock))
            relax(turns++);
}

KEEP static void leave(void)
{
    store(&lock, 0);
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
