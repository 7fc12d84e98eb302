/* What a shell does with a job: a process group in the foreground, waited for; when it
   is stopped the terminal is taken back, and then it goes on in the foreground. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    setvbuf(stdout, 0, _IONBF, 0);
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    setpgid(job, job);
    int status;
    for (;;) {
        if (waitpid(job, &status, WUNTRACED) != job)
            return 3;
        if (!WIFSTOPPED(status))
            break;
        tcsetpgrp(0, getpgrp());
        printf("job stopped by %d\n", WSTOPSIG(status));
        tcsetpgrp(0, job);
        kill(-job, SIGCONT);
    }
    tcsetpgrp(0, getpgrp());
    /* As a shell says it: the tool cannot die of its program's signal. */
    printf("job ended with %d\n", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    return 0;
}
