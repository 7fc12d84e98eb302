/* Every signal that can be caught, raised by the thread itself, sent by a sibling
   and sent to the process: each handler runs exactly as often. */
#include "work.h"
#include <sched.h>

enum { TIMES = 10 };
static volatile long caught[65];
static pthread_t leader;
static int wrong_sender;

static void count(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_pid != getpid() || info->si_uid != getuid())
        wrong_sender++;
    __atomic_fetch_add(&caught[signal], 1, __ATOMIC_RELAXED);
}

static void until(int signal, long times) {
    while (__atomic_load_n(&caught[signal], __ATOMIC_RELAXED) < times)
        sched_yield();
}

static void *sibling(void *unused) {
    /* What is sent to the process is to go to the leader or the workers. */
    for (int signal = 1; signal < 65; signal++)
        for (int turn = 0; turn < TIMES && caught[signal]; turn++) {
            CHECK(!pthread_kill(leader, signal));
            until(signal, TIMES + turn + 1);
        }
    return unused;
}

static volatile int order[TIMES], received;
static void remember(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    order[received++] = info->si_code == SI_QUEUE ? info->si_value.sival_int : -1;
}

int main(void) {
    leader = pthread_self();
    work_starts();
    int kinds = 0;
    for (int signal = 1; signal < 65; signal++) {
        struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
        if (sigaction(signal, &action, 0))
            continue; /* KILL, STOP, and the two of the C library */
        kinds++;
        for (int turn = 0; turn < TIMES; turn++)
            CHECK(!raise(signal));
        CHECK(caught[signal] == TIMES);
    }
    pthread_t other;
    CHECK(!pthread_create(&other, 0, sibling, 0));
    CHECK(!pthread_join(other, 0));
    for (int signal = 1; signal < 65; signal++)
        for (int turn = 0; turn < TIMES && caught[signal]; turn++) {
            CHECK(!kill(getpid(), signal));
            until(signal, 2 * TIMES + turn + 1);
        }
    long all = 0;
    for (int signal = 1; signal < 65; signal++)
        all += caught[signal];

    /* Queued ones keep their number, their order and what they carry. */
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 3);
    handle(SIGRTMIN + 3, remember, 0);
    CHECK(!pthread_sigmask(SIG_BLOCK, &one, &before));
    for (int turn = 0; turn < TIMES; turn++)
        CHECK(!pthread_sigqueue(leader, SIGRTMIN + 3, (union sigval){.sival_int = turn * turn}));
    CHECK(received == 0);
    CHECK(!pthread_sigmask(SIG_SETMASK, &before, 0));
    CHECK(received == TIMES);
    for (int turn = 0; turn < TIMES; turn++)
        CHECK(order[turn] == turn * turn);

    work_ends();
    CHECK(!wrong_sender);
    CHECK(all == 3L * TIMES * kinds);
    nothing_pending();
    printf("%d kinds, %ld caught\n", kinds, all);
    return 0;
}
