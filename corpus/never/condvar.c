// One slot handed from producer to consumer with a mutex and two conditions.
// The slot itself is touched outside the mutex: the full flag says whose it is.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: fill_slot empty_slot
//@ twin-expect: what=slot functions=fill_slot,empty_slot
#include "../lib/crew.h"

enum { ITEMS = 5000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int full;

static struct {
    long item;
    long sequence;
} slot;

static void wait_until(int wanted)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
    while (full != wanted)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
#else
    (void)wanted;
    (void)full;
#endif
}

static void hand_over(int now)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
    full = now;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
#else
    (void)now;
    (void)lock;
    (void)changed;
#endif
}

KEEP static void fill_slot(long item)
{
    slot.item = item;
    slot.sequence++;
}

KEEP static long empty_slot(void)
{
    long item = slot.item;
    slot.item = 0;
    return item;
}

static void producer(void)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        wait_until(0);
        for (unsigned step = 0; step < 8; step++) {
            fill_slot(i);
            busy(4);
        }
        hand_over(1);
        busy(4);
    }
}

static void consumer(void)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        wait_until(1);
        for (unsigned step = 0; step < 8; step++) {
            use_value(empty_slot());
            busy(4);
        }
        hand_over(0);
        busy(4);
    }
}

int main(void)
{
    return run_pair(producer, consumer);
}
