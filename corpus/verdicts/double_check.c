// Checked without the lock, and again with it.
//@ race: what=is_open truth=benign category=double-check
//@ race: what=cache_valid truth=benign category=double-check
//@ reason: what matters is decided with the lock held
#include "../lib/crew.h"

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t cache_lock;
static int is_open;
static char cache_valid;
static unsigned opened, filled;

KEEP static void open_once(void)
{
    if (!is_open) {
        pthread_mutex_lock(&door);
        if (!is_open) {
            opened++;
            is_open = 1;
        }
        pthread_mutex_unlock(&door);
    }
}

KEEP static void close_it(void)
{
    pthread_mutex_lock(&door);
    is_open = 0;
    pthread_mutex_unlock(&door);
}

KEEP static void fill(void)
{
    if (cache_valid)
        return;
    pthread_spin_lock(&cache_lock);
    if (!cache_valid) {
        filled++;
        cache_valid = 1;
    }
    pthread_spin_unlock(&cache_lock);
}

KEEP static void drop_cache(void)
{
    pthread_spin_lock(&cache_lock);
    cache_valid = 0;
    pthread_spin_unlock(&cache_lock);
}

REPEAT(user, open_once(); busy(1); fill())
REPEAT(owner, close_it(); busy(1); drop_cache())

int main(void)
{
    pthread_spin_init(&cache_lock, PTHREAD_PROCESS_PRIVATE);
    return run_pair(user, owner);
}
