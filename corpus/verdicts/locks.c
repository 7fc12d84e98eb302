// Which lock is taken depends on a number that another thread sets.
//@ race: what=chosen truth=harmful category=steers-access
//@ race: what=settled truth=benign category=safe-flag-update
//@ reason: two threads that take different locks do not keep each other out; where the number's bit is left alone, they do
#include "../lib/crew.h"

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t others[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static unsigned chosen, settled = 1;

KEEP static void take_chosen(void)
{
    pthread_mutex_t *lock = &locks[chosen & 1];
    pthread_mutex_lock(lock);
    busy(1);
    pthread_mutex_unlock(lock);
}
KEEP static void take_settled(void)
{
    pthread_mutex_t *lock = &others[settled & 1];
    pthread_mutex_lock(lock);
    busy(1);
    pthread_mutex_unlock(lock);
}
KEEP static void choose(unsigned i) { chosen = i & 1; }
KEEP static void settle(void) { settled ^= 2; }

REPEAT(worker, take_chosen(); busy(1); take_settled())
REPEAT(owner, choose(i); busy(1); settle())

int main(void)
{
    return run_pair(worker, owner);
}
