/* A thousand threads at once, all of them in sampled code. */
#define WORK_AT_LEAST 100000
#include "work.h"

enum { THREADS = 1000, TURNS = 2000 };
static pthread_barrier_t all_there;
static long own[THREADS], together;

static void *one(void *of) {
    long me = (long)of;
    pthread_barrier_wait(&all_there);
    for (int turn = 0; turn < TURNS; turn++) {
        bump(&own[me]);
        bump(&work.unguarded);
        if (turn % 100 == 0) {
            pthread_mutex_lock(&work.lock);
            together++;
            pthread_mutex_unlock(&work.lock);
        }
    }
    pthread_barrier_wait(&all_there);
    return 0;
}

int main(void) {
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    CHECK(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 64 * 1024));
    CHECK(!pthread_barrier_init(&all_there, 0, THREADS));
    for (long t = 0; t < THREADS; t++)
        CHECK(!pthread_create(&threads[t], &small, one, (void *)t));
    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_join(threads[t], 0));
    for (int t = 0; t < THREADS; t++)
        CHECK(own[t] == TURNS);
    CHECK(together == THREADS * TURNS / 100);
    work_starts();
    work_ends();
    printf("%d threads, %ld turns together\n", THREADS, together);
    return 0;
}
