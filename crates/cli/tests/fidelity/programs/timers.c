/* Timers, and the ways to hear of them: each gives exactly what was asked for. */
#include "work.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

enum { TIMES = 10, MS = 1000000 };
static volatile int alarms, interrupts, overruns;

static void on_alarm(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (info->si_code == SI_KERNEL)
        alarms++;
    else if (info->si_code == SI_TIMER) {
        interrupts++;
        overruns += info->si_overrun;
    }
}

static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static int by_sigwait;
static void *waits(void *unused) {
    sigset_t usr1 = only(SIGUSR1);
    for (int turn = 0; turn < TIMES; turn++) {
        siginfo_t info;
        CHECK(sigwaitinfo(&usr1, &info) == SIGUSR1 && info.si_code == SI_TIMER);
        by_sigwait += 1 + info.si_overrun;
    }
    return unused;
}

static timer_t timer_with(int signal, long nanoseconds, long again) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
    struct itimerspec when = {{0, again}, {0, nanoseconds}};
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    CHECK(!timer_settime(timer, 0, &when, 0));
    return timer;
}

int main(void) {
    sigset_t usr1 = only(SIGUSR1), usr2 = only(SIGUSR2), alrm = only(SIGALRM), before;
    /* Before the workers, who are to block them as well. */
    CHECK(!pthread_sigmask(SIG_BLOCK, &usr1, 0) && !pthread_sigmask(SIG_BLOCK, &usr2, 0));
    CHECK(!pthread_sigmask(SIG_BLOCK, &alrm, &before));
    handle(SIGALRM, on_alarm, 0);
    work_starts();
    pthread_t waiter;
    CHECK(!pthread_create(&waiter, 0, waits, 0));

    /* alarm and setitimer, heard by sigsuspend: returns once for each. */
    for (int turn = 0; turn < TIMES; turn++) {
        struct itimerval when = {{0, 0}, {0, 3000}};
        CHECK(!setitimer(ITIMER_REAL, &when, 0));
        CHECK(sigsuspend(&before) == -1 && errno == EINTR);
        CHECK(alarms == turn + 1);
    }
    /* A timer of POSIX with a signal for each time, one after another. */
    for (int turn = 0; turn < TIMES; turn++) {
        timer_t timer = timer_with(SIGALRM, 3 * MS, 0);
        CHECK(sigsuspend(&before) == -1 && errno == EINTR);
        CHECK(interrupts == turn + 1);
        CHECK(!timer_delete(timer));
    }
    CHECK(alarms == TIMES && overruns == 0);
    CHECK(alarm(10000) == 0);
    CHECK(alarm(0) >= 9000);

    /* signalfd through epoll. */
    int signals = signalfd(-1, &usr2, 0), epoll = epoll_create1(0), fds = 0;
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(signals >= 0 && epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, signals, &event));
    for (int turn = 0; turn < TIMES; turn++) {
        timer_t timer = timer_with(SIGUSR2, 3 * MS, 0);
        struct signalfd_siginfo info;
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
        CHECK(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR2);
        fds++;
        CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
        CHECK(!timer_delete(timer));
    }

    /* timerfd: expirations are counted, none is lost. */
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec when = {{0, 2 * MS}, {0, 2 * MS}};
    unsigned long long expired, all = 0;
    struct timespec start, now;
    CHECK(timer >= 0 && !clock_gettime(CLOCK_MONOTONIC, &start));
    CHECK(!timerfd_settime(timer, 0, &when, 0));
    while (all < 5 * TIMES) {
        CHECK(read(timer, &expired, sizeof expired) == sizeof expired);
        all += expired;
    }
    CHECK(!clock_gettime(CLOCK_MONOTONIC, &now));
    long ms = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / MS;
    CHECK((long)all <= ms / 2 + 1);

    /* The thread in sigwait. */
    for (int turn = 0; turn < TIMES; turn++) {
        timer_t one = timer_with(SIGUSR1, 1 * MS, 0);
        struct timespec left = {0, 2 * MS};
        struct itimerspec state;
        do {
            CHECK(!nanosleep(&left, 0));
            CHECK(!timer_gettime(one, &state));
            sigset_t pending;
            CHECK(!sigpending(&pending));
            if (sigismember(&pending, SIGUSR1))
                state.it_value.tv_nsec = 1;
        } while (state.it_value.tv_sec || state.it_value.tv_nsec);
        CHECK(!timer_delete(one));
    }
    CHECK(!pthread_join(waiter, 0));
    work_ends();
    nothing_pending();
    CHECK(alarms == TIMES && interrupts == TIMES);
    printf("%d alarms, %d timers, %d by signalfd, %d by sigwait\n", alarms, interrupts, fds, by_sigwait);
    return 0;
}
