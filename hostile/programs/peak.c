// peak COMMAND: runs it, and says on stderr how many KiB its largest process took, and how many ms all of
// them spent in the kernel. Ends with its status.
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int status = 0;
    struct rusage usage;
    if (argc < 2) return 1;
    pid_t child = fork();
    if (child == 0) {
        execv(argv[1], argv + 1);
        _exit(127);
    }
    waitpid(child, &status, 0);
    getrusage(RUSAGE_CHILDREN, &usage);
    fprintf(stderr, "peak %ld\n", usage.ru_maxrss);
    fprintf(stderr, "system %ld\n", usage.ru_stime.tv_sec * 1000 + usage.ru_stime.tv_usec / 1000);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
