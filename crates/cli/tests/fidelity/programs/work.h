/* Threads that keep accessing memory they share, some of it guarded by a lock and
   some by nothing, while a program does what it is about: there are always
   breakpoints in the way, and windows open. */
#ifndef WORK_H
#define WORK_H
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(fact)                                                                                \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            int error = errno;                                                                     \
            printf("%s:%d: not so: %s (errno %d)\n", __FILE_NAME__, __LINE__, #fact, error);       \
            fflush(stdout);                                                                        \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

#define UNUSED __attribute__((unused))
#ifndef WORKERS
#define WORKERS 2
#endif
/* Enough that some of it is sampled, however short the program is otherwise. */
#ifndef WORK_AT_LEAST
#define WORK_AT_LEAST 3000000
#endif

static struct {
    long unguarded;
    int flags;
    long guarded;
    int over;
    pthread_mutex_t lock;
    pthread_t threads[WORKERS];
    long turns[WORKERS];
} work = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((noinline)) static void bump(long *number) { *number += 1; }
__attribute__((noinline)) static void flip(int *flags, int bit) { *flags ^= 1 << bit; }
__attribute__((noinline)) static void bump_guarded(void) {
    pthread_mutex_lock(&work.lock);
    work.guarded += 1;
    pthread_mutex_unlock(&work.lock);
}

/* The sum of 0..n, by code that is sampled; its result is known. */
UNUSED __attribute__((noinline)) static long sum_to(long n, volatile long *into) {
    *into = 0;
    for (long term = 0; term <= n; term++)
        *into += term;
    return *into;
}

UNUSED static void *work_on(void *turns) {
    long *turn = turns;
    while (*turn < WORK_AT_LEAST || !__atomic_load_n(&work.over, __ATOMIC_ACQUIRE)) {
        bump(&work.unguarded);
        flip(&work.flags, *turn & 7);
        if (*turn % 64 == 0)
            bump_guarded();
        ++*turn;
    }
    return 0;
}

UNUSED static void work_starts(void) {
    work.over = 0;
    for (int w = 0; w < WORKERS; w++)
        CHECK(!pthread_create(&work.threads[w], 0, work_on, &work.turns[w]));
}

/* Joins the threads; what they did under the lock must all be there. */
UNUSED static void work_ends(void) {
    __atomic_store_n(&work.over, 1, __ATOMIC_RELEASE);
    long expected = 0;
    for (int w = 0; w < WORKERS; w++) {
        CHECK(!pthread_join(work.threads[w], 0));
        expected += (work.turns[w] + 63) / 64;
    }
    CHECK(work.guarded == expected);
}

UNUSED static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK(!sigaction(signal, &action, 0));
}

/* Nothing may be left waiting for this thread. */
UNUSED static void nothing_pending(void) {
    sigset_t pending;
    CHECK(!sigpending(&pending));
    for (int signal = 1; signal < 65; signal++)
        CHECK(sigismember(&pending, signal) != 1);
}
#endif
