/* vfork, posix_spawn, system, popen: by several threads at once, while others work. */
#include "work.h"
#include <spawn.h>
#include <sys/wait.h>

enum { TIMES = 10 };
extern char **environ;

static int by_vfork(char *const line[]) {
    int status;
    volatile long into;
    pid_t pid = vfork();
    if (pid == 0) {
        /* The parent's memory, and its breakpoints. */
        if (sum_to(100, &into) != 5050)
            _exit(97);
        execv(line[0], line);
        _exit(96);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

static int by_vfork_without_exec(int with) {
    int status;
    volatile long into;
    pid_t pid = vfork();
    if (pid == 0)
        _exit(sum_to(1000, &into) == 500500 ? with : 97);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

static int by_spawn(char *const line[]) {
    int status;
    pid_t pid;
    CHECK(!posix_spawn(&pid, line[0], 0, 0, line, environ));
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

static void *start(void *unused) {
    char *nine[] = {"/bin/sh", "-c", "exit 9", 0}, *killed[] = {"/bin/sh", "-c", "kill -TERM $$", 0},
         *missing[] = {"/nowhere/at/all", 0};
    char text[100];
    for (int turn = 0; turn < TIMES; turn++) {
        CHECK(by_vfork(nine) == 9 << 8);
        CHECK(by_vfork(killed) == SIGTERM);
        CHECK(by_vfork(missing) == 96 << 8);
        CHECK(by_vfork_without_exec(turn) == turn << 8);
        CHECK(by_spawn(nine) == 9 << 8);
        CHECK(by_spawn(killed) == SIGTERM);
        pid_t pid;
        CHECK(posix_spawn(&pid, missing[0], 0, 0, missing, environ) == ENOENT);
        CHECK(system("exit 5") == 5 << 8);
        CHECK(system("seq 100 | tail -1 | grep -q '^100$'") == 0);
        FILE *output = popen("echo one; echo two; exit 4", "r");
        CHECK(output && fgets(text, sizeof text, output) && !strcmp(text, "one\n"));
        CHECK(fgets(text, sizeof text, output) && !strcmp(text, "two\n"));
        CHECK(pclose(output) == 4 << 8);
    }
    return unused;
}

int main(void) {
    work_starts();
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        CHECK(!pthread_create(&threads[t], 0, start, 0));
    for (int t = 0; t < 2; t++)
        CHECK(!pthread_join(threads[t], 0));
    work_ends();
    CHECK(waitpid(-1, 0, 0) == -1 && errno == ECHILD);
    puts("started and ended");
    return 0;
}
