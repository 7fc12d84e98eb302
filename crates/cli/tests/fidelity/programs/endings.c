/* Ends in the way of its arguments, while its threads are at work. */
#include "work.h"
#include <sys/resource.h>
#include <sys/wait.h>

static const char *how;
static int number;

__attribute__((noinline)) static void crash(volatile int *nothing) { *nothing = 1; }

static void end(void) {
    if (!strcmp(how, "exit"))
        exit(number);
    if (!strcmp(how, "_exit"))
        _exit(number);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "crash"))
        crash((volatile int *)(long)number);
    if (!strcmp(how, "int3"))
        __asm__ volatile("int3");
    if (!strcmp(how, "pipe")) {
        int ends[2];
        CHECK(!pipe(ends) && !close(ends[0]));
        CHECK(write(ends[1], "", 1) == 1);
    }
    if (!strcmp(how, "raise"))
        raise(number);
    if (!strcmp(how, "kill"))
        kill(getpid(), number);
}

static void *ends_all(void *unused) {
    end();
    return unused;
}

static pthread_t leader;
static void *outlives(void *unused) {
    CHECK(!pthread_join(leader, 0));
    work_ends();
    puts("the first thread left first");
    exit(number);
    return unused;
}

static int exits_at_exit;
static void says_so(void) {
    printf("exit handler %d\n", exits_at_exit);
}

/* The end of a child, core and all, as its parent hears of it. */
static int of_a_child(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        work.over = 0;
        work_starts();
        usleep(30000);
        end();
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("exited %d, status %d, signal %d, core %d\n", WIFEXITED(status), WEXITSTATUS(status),
           WTERMSIG(status), WCOREDUMP(status) != 0);
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    how = argv[2];
    number = atoi(argv[3]);
    exits_at_exit = 1;
    atexit(says_so);
    puts("begun");
    fflush(stdout);
    work_starts();
    /* The work is well on its way before the end comes. */
    while (__atomic_load_n(&work.turns[0], __ATOMIC_RELAXED) < WORK_AT_LEAST)
        usleep(1000);
    pthread_t thread;
    if (!strcmp(argv[1], "leader"))
        end();
    if (!strcmp(argv[1], "thread")) {
        CHECK(!pthread_create(&thread, 0, ends_all, 0));
        for (;;)
            bump(&work.unguarded);
    }
    if (!strcmp(argv[1], "child"))
        return of_a_child();
    if (!strcmp(argv[1], "returns"))
        return number;
    if (!strcmp(argv[1], "leaves")) {
        leader = pthread_self();
        CHECK(!pthread_create(&thread, 0, outlives, 0));
        pthread_exit(0);
    }
    return 98;
}
