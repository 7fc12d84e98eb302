/* Children, and what they execute, have the default action for SIGTRAP, and so do they
   die of it; in the end the program does. */
#include "work.h"
#include <sys/wait.h>

static int has_default(void) {
    struct sigaction now;
    CHECK(!sigaction(SIGTRAP, 0, &now));
    return now.sa_handler == SIG_DFL;
}

static int ending_of(char **arguments) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        if (arguments)
            execv(arguments[0], arguments);
        _exit(has_default());
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

int main(int count, char **arguments) {
    if (count > 1)
        return has_default();
    work_starts();
    char *again[] = {arguments[0], "executed", 0};
    for (int round = 0; round < 20; round++) {
        usleep(10000);
        CHECK(ending_of(0) == 1 << 8);
        CHECK(ending_of(again) == 1 << 8);
    }
    work_ends();
    puts("inherited nothing");
    fflush(stdout);
    raise(SIGTRAP);
    return 1;
}
