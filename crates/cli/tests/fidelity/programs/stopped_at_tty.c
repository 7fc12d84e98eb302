/* Works on a terminal until it was stopped and continued, three times: by a key, or by
   itself with the signal of its argument. */
#include "work.h"
#include <sys/ioctl.h>

static volatile int continued;
static void count(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    continued++;
}

int main(int argc, char **argv) {
    char line[100];
    setvbuf(stdout, 0, _IONBF, 0);
    handle(SIGCONT, count, SA_RESTART);
    work_starts();
    for (int round = 0; round < 3; round++) {
        printf("ready %d\n", round);
        if (argc > 1)
            kill(getpid(), atoi(argv[1]));
        while (continued == round)
            usleep(1000);
        printf("continued %d\n", continued);
        CHECK(fgets(line, sizeof line, stdin));
        printf("line %s", line);
    }
    work_ends();
    return 6;
}
