// Checks a flag, takes the lock, checks it again.
//@ race: what=table_is_ready truth=benign category=double-check
//@ reason: the second check is made with the lock held, and the table is used with it held too
#include "../../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int table_is_ready;
static unsigned table[64];
static unsigned sum;

KEEP static void prepare(unsigned i)
{
    if (!table_is_ready) {
        pthread_mutex_lock(&lock);
        if (!table_is_ready) {
            for (unsigned at = 0; at < 64; at++)
                table[at] = at * i;
            table_is_ready = 1;
        }
        sum += table[i % 64];
        pthread_mutex_unlock(&lock);
    }
}

KEEP static void invalidate(void)
{
    pthread_mutex_lock(&lock);
    table_is_ready = 0;
    pthread_mutex_unlock(&lock);
}

REPEAT(user, prepare(i))
REPEAT(owner, invalidate())

int main(void)
{
    return run_pair(user, owner);
}
