// A thread lends the address of its thread-local variable to another, and goes on using it.
//@ build: O0 O2
//@ full: O2+clang O2+static
//@ expect: what=* functions=bump_own,bump_lent
#include "../lib/crew.h"

static __thread long tally;
static long *lent;

KEEP static void bump_own(void)
{
    tally++;
}

KEEP static void bump_lent(long *of)
{
    *of += 2;
}

static void owner(void)
{
    __atomic_store_n(&lent, &tally, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < ROUNDS; i++) {
        bump_own();
        busy(4);
    }
    // The borrower must be done before this thread's variables are gone.
    for (unsigned turns = 0; __atomic_load_n(&lent, __ATOMIC_ACQUIRE); turns++)
        relax(turns);
}

static void borrower(void)
{
    long *of;
    for (unsigned turns = 0; !(of = __atomic_load_n(&lent, __ATOMIC_ACQUIRE)); turns++)
        relax(turns);
    for (unsigned i = 0; i < ROUNDS; i++) {
        bump_lent(of);
        busy(4);
    }
    __atomic_store_n(&lent, (long *)NULL, __ATOMIC_RELEASE);
}

int main(void)
{
    return run_pair(owner, borrower);
}
