/* A helper process stops this one and lets it go on, several times; while it is
   stopped none of its threads moves, and each SIGCONT is caught once.
   The signal is the first argument. */
#include "work.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 5 };
static int continued;
static void count(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    __atomic_fetch_add(&continued, 1, __ATOMIC_RELEASE);
}

static long shared_turns(const volatile long *turns) {
    long all = 0;
    for (int w = 0; w < WORKERS; w++)
        all += turns[w];
    return all;
}

struct shared {
    volatile long turns[WORKERS];
    volatile int rounds;
};

static struct shared *shared;
static void *report(void *of) {
    long me = (long)of;
    while (!__atomic_load_n(&work.over, __ATOMIC_ACQUIRE)) {
        bump(&work.unguarded);
        shared->turns[me]++;
    }
    return 0;
}

/* Whether all stood still through some looks. */
static int stands_still(void) {
    for (int look = 0; look < 2000; look++) {
        long before = shared_turns(shared->turns);
        usleep(20000);
        if (shared_turns(shared->turns) == before)
            return 1;
    }
    return 0;
}

static int helper(pid_t of, int signal) {
    for (int round = 0; round < ROUNDS; round++) {
        long before = shared_turns(shared->turns);
        for (int look = 0; shared_turns(shared->turns) == before; look++) {
            if (look == 20000)
                return 1;
            usleep(1000);
        }
        if (kill(of, signal) || !stands_still())
            return 2;
        if (kill(of, SIGCONT))
            return 3;
        for (int look = 0; shared->rounds == round; look++) {
            if (look == 20000)
                return 4;
            usleep(1000);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t me = getpid();
    handle(SIGCONT, count, SA_RESTART);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child)
        _exit(helper(me, atoi(argv[1])));
    pthread_t threads[WORKERS];
    for (long w = 0; w < WORKERS; w++)
        CHECK(!pthread_create(&threads[w], 0, report, (void *)w));
    for (int round = 0; round < ROUNDS; round++) {
        while (__atomic_load_n(&continued, __ATOMIC_ACQUIRE) == round)
            usleep(1000);
        shared->rounds = round + 1;
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    __atomic_store_n(&work.over, 1, __ATOMIC_RELEASE);
    for (int w = 0; w < WORKERS; w++)
        CHECK(!pthread_join(threads[w], 0));
    CHECK(status == 0);
    CHECK(continued == ROUNDS);
    nothing_pending();
    printf("stopped and continued %d times\n", continued);
    return 0;
}
