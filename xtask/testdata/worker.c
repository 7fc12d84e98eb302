/* Four threads work, and check what they have done; a fifth sleeps. It runs until it is
   told to end, and says then, by a file of the given name, whether all was right. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define THREADS 4
#define WORDS 256

static int over, wrong;
static long guarded, expected, raced;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void fill(unsigned *words, unsigned seed) {
    for (int i = 0; i < WORDS; i++)
        words[i] = seed = seed * 1664525u + 1013904223u;
}

static int order(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

__attribute__((noinline)) static unsigned sum(const unsigned *words) {
    unsigned total = 0;
    for (int i = 0; i < WORDS; i++)
        total += words[i];
    return total;
}

__attribute__((noinline)) static int is_sorted(const unsigned *words) {
    for (int i = 1; i < WORDS; i++)
        if (words[i - 1] > words[i])
            return 0;
    return 1;
}

__attribute__((noinline)) static void count(void) {
    raced++;
    pthread_mutex_lock(&lock);
    guarded++;
    pthread_mutex_unlock(&lock);
}

static void *work(void *seed) {
    long counted = 0;
    unsigned *words = malloc(WORDS * sizeof *words);
    for (unsigned n = (unsigned)(long)seed; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); n += 7) {
        fill(words, n);
        unsigned before = sum(words);
        qsort(words, WORDS, sizeof *words, order);
        if (!is_sorted(words) || sum(words) != before)
            wrong = 1;
        for (int i = 0; i < 20; i++, counted++)
            count();
        if (n % 5 == 0)
            usleep(50);
    }
    free(words);
    __atomic_fetch_add(&expected, counted, __ATOMIC_RELAXED);
    return 0;
}

static void *sleep_undisturbed(void *unused) {
    int nothing = epoll_create1(0);
    struct epoll_event event;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        if (epoll_wait(nothing, &event, 1, 200) < 0)
            wrong = 2;
    return unused;
}

int main(int count, char **arguments) {
    sigset_t end;
    pthread_t threads[THREADS + 1];
    int got;
    if (count != 2)
        return 1;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, 0);
    for (long t = 0; t < THREADS; t++)
        pthread_create(&threads[t], 0, work, (void *)(t * 1000 + 1));
    pthread_create(&threads[THREADS], 0, sleep_undisturbed, 0);
    printf("%d\n", getpid());
    fflush(stdout);
    sigwait(&end, &got);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int t = 0; t <= THREADS; t++)
        pthread_join(threads[t], 0);
    if (guarded != expected)
        wrong = 3;
    FILE *result = fopen(arguments[1], "w");
    if (!result)
        return 2;
    fprintf(result, "%d\n", wrong);
    fclose(result);
    return 0;
}
