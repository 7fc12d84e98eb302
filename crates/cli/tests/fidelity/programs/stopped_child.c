/* A child with threads is stopped and continued by its parent, which hears of each
   stop and each continuation once, with the signal that did it. */
#include "work.h"
#include <sys/wait.h>

static void stop_and_continue(pid_t child, int signal) {
    int status;
    siginfo_t info;
    CHECK(!kill(child, signal));
    CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED) == child);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == signal);
    CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG) == 0);
    CHECK(!kill(child, SIGCONT));
    memset(&info, 0, sizeof info);
    CHECK(!waitid(P_PID, child, &info, WEXITED | WSTOPPED | WCONTINUED));
    CHECK(info.si_code == CLD_CONTINUED && info.si_status == SIGCONT);
    CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG) == 0);
}

int main(void) {
    int ready[2];
    CHECK(!pipe(ready));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        work_starts();
        CHECK(write(ready[1], "", 1) == 1);
        for (;;)
            pause();
    }
    work_starts();
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    /* In a group of its own, with its parent in the session: no orphan, so that
       the signals of the keyboard stop it, too. */
    CHECK(!setpgid(child, child));
    for (int round = 0; round < 5; round++) {
        stop_and_continue(child, SIGSTOP);
        stop_and_continue(child, SIGTSTP);
        stop_and_continue(child, SIGTTIN);
        stop_and_continue(child, SIGTTOU);
    }
    CHECK(!kill(child, SIGTERM));
    int status;
    CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    work_ends();
    puts("heard of everything");
    return 0;
}
