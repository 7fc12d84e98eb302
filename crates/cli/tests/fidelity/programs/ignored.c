/* SIGTRAP is ignored, in some threads blocked besides; it stays so, and sent it does
   nothing. */
#include "work.h"

static void *blocked(void *turns) {
    sigset_t all;
    sigfillset(&all);
    CHECK(!pthread_sigmask(SIG_SETMASK, &all, 0));
    work_on(turns);
    CHECK(!pthread_sigmask(SIG_BLOCK, 0, &all));
    CHECK(sigismember(&all, SIGTRAP) == 1);
    nothing_pending();
    return 0;
}

int main(void) {
    struct sigaction action = {.sa_handler = SIG_IGN}, now;
    CHECK(!sigaction(SIGTRAP, &action, 0));
    work_starts();
    long turns = 0;
    pthread_t thread;
    CHECK(!pthread_create(&thread, 0, blocked, &turns));
    for (int round = 0; round < 300; round++) {
        for (int turn = 0; turn < 10000; turn++)
            bump(&work.unguarded);
        CHECK(!sigaction(SIGTRAP, 0, &now));
        CHECK(now.sa_handler == SIG_IGN);
        CHECK(!kill(getpid(), SIGTRAP));
        CHECK(!raise(SIGTRAP));
    }
    __atomic_store_n(&work.over, 1, __ATOMIC_RELEASE);
    CHECK(!pthread_join(thread, 0));
    for (int w = 0; w < WORKERS; w++)
        CHECK(!pthread_join(work.threads[w], 0));
    CHECK(!sigaction(SIGTRAP, 0, &now));
    CHECK(now.sa_handler == SIG_IGN);
    CHECK(!raise(SIGTRAP));
    nothing_pending();
    puts("still ignored");
    return 0;
}
