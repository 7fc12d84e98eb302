// Dekker's algorithm with a cheap and a dear side: the cheap one has no fence at all, because the
// dear one makes the kernel fence it (membarrier). Flags are relaxed atomics, the balance is plain.
//@ build: O2
//@ full: O0 O0+clang O2+clang O2+nodebug O2+clang+nodebug O3 Os
//@ focus: deposit enter_cheaply
//@ twin-expect: what=balance functions=deposit,deposit
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <linux/membarrier.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool cheap_inside, dear_inside;
static long balance;

KEEP static void deposit(long amount)
{
    balance += amount;
}

KEEP static int enter_cheaply(void)
{
    atomic_store_explicit(&cheap_inside, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&dear_inside, memory_order_acquire))
        return 1;
    atomic_store_explicit(&cheap_inside, 0, memory_order_relaxed);
    return 0;
}

static void cheap(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
#ifdef TWIN
        deposit(1);
#else
        if (enter_cheaply()) {
            deposit(1);
            atomic_store_explicit(&cheap_inside, 0, memory_order_release);
        }
#endif
        busy(4);
    }
}

static void dear(void)
{
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
#ifndef TWIN
        atomic_store_explicit(&dear_inside, 1, memory_order_relaxed);
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        for (unsigned turns = 0; atomic_load_explicit(&cheap_inside, memory_order_acquire); turns++)
            relax(turns);
#endif
        deposit(-1);
#ifndef TWIN
        atomic_store_explicit(&dear_inside, 0, memory_order_release);
#endif
        busy(20);
    }
}

int main(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
        return 77;
    return run_pair(cheap, dear);
}
