// storm SECONDS: threads come and go, signal each other and are stopped by timers, for that long. Ends with 0.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

long shared;
static volatile sig_atomic_t heard;
static time_t until;

static void hear(int signal) { (void)signal; heard++; }

static void *brief(void *none) {
    (void)none;
    for (int i = 0; i < 100; i++) shared++;
    return 0;
}

static void *begin(void *none) {
    (void)none;
    while (time(0) < until) {
        pthread_t thread;
        if (!pthread_create(&thread, 0, brief, 0)) pthread_join(thread, 0);
    }
    return 0;
}

static void *send_signals(void *to) {
    while (time(0) < until) {
        pthread_kill(*(pthread_t *)to, SIGUSR1);
        shared++;
    }
    return 0;
}

int main(int argc, char **argv) {
    pthread_t threads[3], self = pthread_self();
    struct itimerval often = {{0, 500}, {0, 500}};
    until = time(0) + (argc > 1 ? atoi(argv[1]) : 1);
    signal(SIGUSR1, hear);
    signal(SIGALRM, hear);
    setitimer(ITIMER_REAL, &often, 0);
    pthread_create(&threads[0], 0, begin, 0);
    pthread_create(&threads[1], 0, begin, 0);
    pthread_create(&threads[2], 0, send_signals, &self);
    while (time(0) < until) kill(getpid(), SIGUSR1);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return heard ? 0 : 1;
}
