// A thread lends its thread-local variable to another and waits until it is given back.
//@ build: O0 O2
//@ full: O2+clang O2+static O2+nodebug
//@ focus: bump_own bump_lent
//@ twin-expect: what=* functions=bump_own,bump_lent
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
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        __atomic_store_n(&lent, &tally, __ATOMIC_RELEASE);
        for (unsigned turns = 0; __atomic_load_n(&lent, __ATOMIC_ACQUIRE); turns++) {
#ifdef TWIN
            bump_own();
#endif
            relax(turns);
        }
        bump_own();
    }
}

static void borrower(void)
{
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        long *of;
        for (unsigned turns = 0; !(of = __atomic_load_n(&lent, __ATOMIC_ACQUIRE)); turns++)
            relax(turns);
        bump_lent(of);
        __atomic_store_n(&lent, (long *)NULL, __ATOMIC_RELEASE);
    }
}

int main(void)
{
    return run_pair(owner, borrower);
}
