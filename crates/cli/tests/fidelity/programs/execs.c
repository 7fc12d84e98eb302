/* Becomes another program in the middle of its work: by the first thread, or by one
   that is not; then itself again, a few times. */
#include "work.h"

static char **line;
static void *becomes(void *unused) {
    volatile long into;
    for (int turn = 0; turn < 1000; turn++)
        CHECK(sum_to(1000, &into) == 500500);
    execv("/proc/self/exe", line);
    CHECK(!"gone");
    return unused;
}

int main(int argc, char **argv) {
    /* who, how often, and the number of the process that began. */
    CHECK(argc == 4);
    int left = atoi(argv[2]), by_leader = !strcmp(argv[1], "leader");
    char again[20], me[20];
    snprintf(again, sizeof again, "%d", left - 1);
    snprintf(me, sizeof me, "%d", getpid());
    if (!strcmp(argv[3], "first"))
        argv[3] = me;
    CHECK(!strcmp(argv[3], me));
    printf("%d\n", left);
    fflush(stdout);
    work_starts();
    if (left == 0) {
        work_ends();
        char *last[] = {"/bin/echo", "and", "out", 0};
        execv(last[0], last);
    }
    char *next[] = {argv[0], argv[1], again, argv[3], 0};
    line = next;
    if (by_leader) {
        becomes(0);
    } else {
        pthread_t thread;
        CHECK(!pthread_create(&thread, 0, becomes, 0));
        for (;;)
            bump(&work.unguarded);
    }
    return 98;
}
