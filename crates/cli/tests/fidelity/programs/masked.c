/* Threads that block every signal, or SIGTRAP alone, run code that is sampled; their
   masks are at the end what they were, and nothing waits for them. */
#include "work.h"

static int same(const sigset_t *a, const sigset_t *b) {
    for (int signal = 1; signal < 65; signal++)
        if (sigismember(a, signal) != sigismember(b, signal))
            return 0;
    return 1;
}

static long turns[3];
static sigset_t masks[3];

static void *with_mask(void *of) {
    long me = (long)of;
    sigset_t was, now;
    CHECK(!pthread_sigmask(SIG_SETMASK, &masks[me], 0));
    /* Some signals can never be blocked: what counts is what the kernel kept. */
    CHECK(!pthread_sigmask(SIG_BLOCK, 0, &was));
    CHECK(me == 2 || sigismember(&was, SIGTRAP) == 1);
    for (int round = 0; round < 50; round++) {
        for (int turn = 0; turn < 100000; turn++) {
            bump(&work.unguarded);
            bump(&turns[me]);
            flip(&work.flags, turn & 7);
        }
        CHECK(!pthread_sigmask(SIG_BLOCK, 0, &now));
        CHECK(same(&was, &now));
        nothing_pending();
    }
    if (me == 2)
        return 0;
    /* It is still held back: sent, it waits until it is asked for. */
    CHECK(!raise(SIGTRAP));
    CHECK(!sigpending(&now));
    CHECK(sigismember(&now, SIGTRAP) == 1);
    sigset_t trap;
    int got;
    sigemptyset(&trap);
    sigaddset(&trap, SIGTRAP);
    CHECK(!sigwait(&trap, &got) && got == SIGTRAP);
    nothing_pending();
    return 0;
}

int main(void) {
    sigfillset(&masks[0]);
    sigemptyset(&masks[1]);
    sigaddset(&masks[1], SIGTRAP);
    sigemptyset(&masks[2]);
    pthread_t threads[3];
    for (long t = 0; t < 3; t++)
        CHECK(!pthread_create(&threads[t], 0, with_mask, (void *)t));
    for (int t = 0; t < 3; t++)
        CHECK(!pthread_join(threads[t], 0));
    struct sigaction trap;
    CHECK(!sigaction(SIGTRAP, 0, &trap));
    CHECK(trap.sa_handler == SIG_DFL);
    nothing_pending();
    puts("masks kept");
    return 0;
}
