// Two threads that race on `shared` until they are told to end. Says "ready" and its number, and ends with 0 on SIGTERM.
// With UNDUMPABLE nobody but root may look at it once it runs; with LINE its source is said to be there.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

long shared;
static volatile sig_atomic_t told;

static void tell(int signal) { (void)signal; told = 1; }

static void *work(void *none) {
    (void)none;
    while (!told)
        for (int i = 0; i < 1000; i++) {
#ifdef LINE
#line 1 LINE
#endif
            shared++;
            // So that it is in memory each time.
            __asm__ volatile("" ::: "memory");
        }
    return 0;
}

int main(void) {
    pthread_t other;
    signal(SIGTERM, tell);
    pthread_create(&other, 0, work, 0);
#ifdef UNDUMPABLE
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
    printf("ready %d\n", getpid());
    fflush(stdout);
    work(0);
    pthread_join(other, 0);
    return 0;
}
