/* Forks from several threads while all of its code carries breakpoints; each child runs
   the sampled functions a million times, longer than its parent's threads. */
#include "work.h"
#include <sys/wait.h>

enum { CHILDREN = 4, TURNS = 1000000 };

static int child(void) {
    volatile long into;
    long own = 0;
    int flags = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        bump(&own);
        flip(&flags, turn & 1);
    }
    for (int turn = 0; turn < 1000; turn++)
        if (sum_to(1000, &into) != 500500)
            return 1;
    return own == TURNS && flags == 0 ? 33 : 2;
}

static void *forks(void *pid) {
    *(pid_t *)pid = fork();
    if (*(pid_t *)pid == 0)
        _exit(child());
    volatile long into;
    for (int turn = 0; turn < 1000; turn++)
        CHECK(sum_to(1000, &into) == 500500);
    return 0;
}

int main(void) {
    work_starts();
    pthread_t threads[CHILDREN];
    pid_t pids[CHILDREN];
    for (int round = 0; round < 5; round++) {
        for (int c = 0; c < CHILDREN; c++)
            CHECK(!pthread_create(&threads[c], 0, forks, &pids[c]));
        for (int c = 0; c < CHILDREN; c++)
            CHECK(!pthread_join(threads[c], 0));
        for (int c = 0; c < CHILDREN; c++) {
            int status;
            CHECK(waitpid(pids[c], &status, 0) == pids[c]);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 33);
        }
    }
    work_ends();
    puts("every child came to its end");
    return 0;
}
