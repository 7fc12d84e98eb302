// The predicate of a condition variable is a bit-field. Other bit-fields of the same word are guarded by
// the same mutex; those behind the zero width are a memory location of their own, and one thread's.
//@ build: O2
//@ full: O0 O0+clang O2+clang O2+nodebug O2+clang+nodebug O3 Os O1
//@ focus: put take count_alone
//@ twin-expect: what=box functions=put,take
#include "../lib/crew.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
    unsigned full : 1;
    unsigned kind : 5;
    unsigned size : 10;
    unsigned : 0;
    unsigned mine : 20;
    unsigned also_mine : 12;
} box;

KEEP static void count_alone(void)
{
    box.mine++;
    box.also_mine = box.mine & 0xfff;
}

KEEP static void put(unsigned i)
{
#ifndef TWIN
    pthread_mutex_lock(&mutex);
    while (box.full)
        pthread_cond_wait(&changed, &mutex);
#endif
    box.kind = i & 31;
    box.size = i & 1023;
    box.full = 1;
#ifndef TWIN
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
#endif
}

KEEP static unsigned take(void)
{
#ifndef TWIN
    pthread_mutex_lock(&mutex);
    while (!box.full)
        pthread_cond_wait(&changed, &mutex);
#endif
    unsigned taken = box.kind + box.size;
    box.full = 0;
#ifndef TWIN
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
#endif
    return taken;
}

#ifdef TWIN
#define BOXES ROUNDS
#else
#define BOXES (ROUNDS / 10)
#endif

static void putter(void)
{
    for (unsigned i = 0; i < BOXES; i++) {
        put(i);
        for (unsigned k = 0; k < 8; k++)
            count_alone();
    }
}

static void taker(void)
{
    for (unsigned i = 0; i < BOXES; i++)
        use_value(take());
}

int main(void)
{
    return run_pair(putter, taker);
}
