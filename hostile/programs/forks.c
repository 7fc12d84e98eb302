// forks N: has N children, thirty at a time, and says how many ended as they should.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

volatile long shared;

int main(int argc, char **argv) {
    int wanted = argc > 1 ? atoi(argv[1]) : 1, begun = 0, running = 0, well = 0, status;
    while (begun < wanted || running) {
        if (begun < wanted && running < 30) {
            pid_t child = fork();
            if (child < 0) return 1;
            if (!child) {
                for (int i = 0; i < 1000; i++) shared++;
                _exit(3);
            }
            begun++;
            running++;
        } else if (wait(&status) > 0) {
            running--;
            well += WIFEXITED(status) && WEXITSTATUS(status) == 3;
        }
    }
    printf("%d ended well\n", well);
    return 0;
}
