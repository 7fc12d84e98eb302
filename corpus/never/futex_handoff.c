// Two workers hand a balance to each other by a futex: who has no turn sleeps in the kernel.
// Only the word of the futex is atomic; what is handed over is plain, and so is the count of sleeps,
// which whoever has the turn keeps for both.
//@ build: O2
//@ full: O0 O0+clang O2+clang O2+nodebug O2+clang+nodebug O3 Os O2+static O2+stripped
//@ focus: guarded_bump is_turn_of hand_to
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic unsigned turn;
static long sleeps;

static int is_turn_of(int me)
{
    unsigned slept = 0, now;
    while ((now = atomic_load_explicit(&turn, memory_order_acquire)) != (unsigned)me) {
        syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, now, 0, 0, 0);
        slept++;
    }
    sleeps += slept;
    return 1;
}

static void hand_to(int other)
{
    sleeps++;
    atomic_store_explicit(&turn, (unsigned)other, memory_order_release);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

#include "../lib/turns.h"
