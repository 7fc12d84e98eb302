// What the programs of this family share: two threads, and sleeps that keep their accesses
// apart. With -DGUARDED a lock is held at each access, and the program is correct.
#ifndef CORPUS_APART_H
#define CORPUS_APART_H

#include <pthread.h>
#include <unistd.h>

// A function that keeps its name and its accesses.
#define KEEP __attribute__((noinline, noclone))

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

#ifdef GUARDED
#define ENTER pthread_mutex_lock(&guard)
#define LEAVE pthread_mutex_unlock(&guard)
#else
#define ENTER (void)guard
#define LEAVE (void)guard
#endif

// Longer than any ordinary window by two orders of magnitude.
static inline void apart(void)
{
    usleep(300000);
}

static inline int run_both(void *(*first)(void *), void *(*second)(void *))
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}

#endif
