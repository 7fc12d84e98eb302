// The writer always owns a lock that the reader takes before it reads, and gives back too
// soon. While the writer is held, the reader cannot come; only the reader can be held.
//@ expect: what=level functions=raise_level,read_level
#include "apart.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long level;

KEEP static void raise_level(long n)
{
    level = n;
}

KEEP static long read_level(void)
{
    return level;
}

static void *pump(void *unused)
{
    for (long turn = 0; turn < 4; turn++) {
        pthread_mutex_lock(&lock);
        raise_level(turn);
        pthread_mutex_unlock(&lock);
        apart();
    }
    return unused;
}

static void *gauge(void *unused)
{
    for (long turn = 0; turn < 4; turn++) {
        apart();
        pthread_mutex_lock(&lock);
#ifndef GUARDED
        pthread_mutex_unlock(&lock);
#endif
        long seen = read_level();
#ifdef GUARDED
        pthread_mutex_unlock(&lock);
#endif
        __asm__ volatile("" : : "r"(seen));
    }
    return unused;
}

int main(void)
{
    (void)guard;
    return run_both(pump, gauge);
}
