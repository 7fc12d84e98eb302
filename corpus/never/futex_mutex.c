// A mutex of three states over futex, whose builtins are behind macros with plain names.
//@ build: O0 O2
//@ full: O2+clang O2+g3 O2+nodebug O2+stripped
//@ focus: enter leave guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define swap(p, v) __atomic_exchange_n(p, v, __ATOMIC_ACQUIRE)
#define peek(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define poke(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

static int word;
static long balance;

static int take_free(void)
{
    int none = 0;
    return __atomic_compare_exchange_n(&word, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

KEEP static void enter(void)
{
    if (take_free())
        return;
    while (swap(&word, 2) != 0)
        if (peek(&word) == 2)
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

KEEP static void leave(void)
{
    poke(&word, 0);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
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
