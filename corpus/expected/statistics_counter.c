// A hand-made lock guards a reference count; the statistics beside it are
// counted without one. Only the statistics race.
//@ build: O0 O2 O2+static
//@ full: O2+clang
//@ expect: what=statistics_count functions=count_operation,count_operation
//@ silent: what=reference_count
//@ silent: what=my_lock
#include "../lib/crew.h"

static int my_lock;
static long reference_count;
static long statistics_count;

static void my_lock_acquire(void)
{
    while (__atomic_exchange_n(&my_lock, 1, __ATOMIC_ACQUIRE) != 0)
        busy(1);
}

static void my_lock_release(void)
{
    __atomic_store_n(&my_lock, 0, __ATOMIC_RELEASE);
}

KEEP static void count_reference(void)
{
    reference_count++;
}

KEEP static void count_operation(void)
{
    statistics_count++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        my_lock_acquire();
        count_reference();
        my_lock_release();
        count_operation();
        busy(4);
    }
}

int main(void)
{
    return run_pair(worker, worker);
}
