/* Children with every kind of ending, forked while other threads work; each child
   runs functions that are sampled in its parent. */
#include "work.h"
#include <sys/wait.h>

static int ending_of(int (*child)(int), int argument) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid)
        _exit(child(argument));
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) != argument)
        printf("killed by %d\n", WTERMSIG(status));
    return status;
}

static int sums(int status) {
    volatile long into;
    /* A breakpoint left behind would end it here. */
    for (int turn = 0; turn < 1000; turn++)
        if (sum_to(100, &into) != 5050)
            return 1;
    for (int turn = 0; turn < 100000; turn++) {
        bump(&work.unguarded);
        flip(&work.flags, turn & 7);
    }
    return status;
}

static int dies(int by) {
    sums(0);
    /* Without a core: the row about those is another. */
    signal(by, SIG_DFL);
    raise(by);
    return 1;
}

static int has_children(int depth) {
    return depth ? WEXITSTATUS(ending_of(has_children, depth - 1)) + 1 : sums(0);
}

static int makes_threads(int status) {
    pthread_t threads[2];
    static long turns[2];
    work.over = 1;
    for (int t = 0; t < 2; t++) {
        turns[t] = WORK_AT_LEAST - 100000;
        if (pthread_create(&threads[t], 0, work_on, &turns[t]))
            return 1;
    }
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], 0);
    return status;
}

static void *forking(void *unused) {
    volatile long into;
    for (int round = 0; round < 20; round++) {
        CHECK(ending_of(sums, 3) == 3 << 8);
        CHECK(sum_to(100, &into) == 5050);
    }
    return unused;
}

int main(void) {
    /* A lock another thread holds at the fork stays locked in the child: theirs is
       not used there. */
    work_starts();
    pthread_t thread;
    CHECK(!pthread_create(&thread, 0, forking, 0));
    static const int statuses[] = {0, 1, 2, 66, 77, 125, 126, 127, 128, 255};
    for (unsigned s = 0; s < sizeof statuses / sizeof *statuses; s++)
        CHECK(ending_of(sums, statuses[s]) == statuses[s] << 8);
    static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1};
    for (unsigned s = 0; s < sizeof signals / sizeof *signals; s++)
        CHECK(ending_of(dies, signals[s]) == signals[s]);
    CHECK(ending_of(has_children, 5) == 5 << 8);
    CHECK(!pthread_join(thread, 0));
    work_ends();
    CHECK(waitpid(-1, 0, 0) == -1 && errno == ECHILD);
    int with_threads = ending_of(makes_threads, 44);
    CHECK(with_threads == 44 << 8);
    puts("all endings as they should be");
    return 7;
}
