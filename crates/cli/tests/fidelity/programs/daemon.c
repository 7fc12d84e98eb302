/* Forks twice, leaves its session, and writes a file when its first process is long
   gone: the path is the first argument. */
#include "work.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    work_starts();
    pid_t first = getpid(), child = fork();
    CHECK(child >= 0);
    if (child) {
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        work_ends();
        puts("left a daemon");
        return 11;
    }
    CHECK(setsid() == getpid());
    pid_t second = fork();
    CHECK(second >= 0);
    if (second)
        _exit(0);
    int nothing = open("/dev/null", O_RDWR);
    CHECK(nothing >= 0 && dup2(nothing, 0) == 0 && dup2(nothing, 1) == 1 && dup2(nothing, 2) == 2);
    /* Until its first ancestor has ended. */
    while (!kill(first, 0))
        usleep(1000);
    /* Threads of its own; those of its ancestor are not here. */
    memset(&work, 0, sizeof work);
    work_starts();
    work_ends();
    volatile long into;
    for (int turn = 0; turn < 1000; turn++)
        if (sum_to(1000, &into) != 500500)
            return 1;
    char part[4096];
    /* The daemon of another run may be at it, too. */
    snprintf(part, sizeof part, "%s.%d", argv[1], getpid());
    FILE *file = fopen(part, "w");
    if (!file)
        return 2;
    fprintf(file, "session %s, group %s\n", getsid(0) != first ? "its own" : "the old",
            getpgid(0) == getsid(0) ? "of the session" : "other");
    fclose(file);
    return rename(part, argv[1]) ? 3 : 0;
}
