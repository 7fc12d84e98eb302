// The lock is taken on one side only.
//@ race: what=balance truth=harmful category=missing-lock
//@ race: what=limit truth=harmful category=missing-lock
//@ reason: a deposit without the lock is lost
#include "../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balance;
static int limit;

KEEP static void deposit(void)
{
    pthread_mutex_lock(&lock);
    balance += 10;
    pthread_mutex_unlock(&lock);
}
KEEP static void credit(void) { balance += 5; }
KEEP static void set_limit(unsigned i)
{
    pthread_mutex_lock(&lock);
    limit = (int)i;
    pthread_mutex_unlock(&lock);
}
KEEP static void reset_limit(void) { limit = 100; }

REPEAT(one, deposit(); busy(1); set_limit(i))
REPEAT(two, credit(); busy(1); reset_limit())

int main(void)
{
    return run_pair(one, two);
}
