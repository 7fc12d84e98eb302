/* clone() in its forms: a copy of the memory, the same memory, and children that no
   tracer is told of, which run the very code that is sampled. */
#include "work.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { STACK = 256 * 1024, TIMES = 10, TURNS = 200000 };
static long shared_with_child;

static int child(void *own) {
    long *number = own;
    volatile long into;
    int flags = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        bump(number);
        flip(&flags, turn & 1);
    }
    for (int turn = 0; turn < 100; turn++)
        if (sum_to(1000, &into) != 500500)
            return 1;
    return 21;
}

static int ending_of(int flags, long *number) {
    char *stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    CHECK(stack != MAP_FAILED);
    pid_t pid = clone(child, stack + STACK, flags | SIGCHLD, number);
    CHECK(pid > 0);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(!munmap(stack, STACK));
    if (WIFSIGNALED(status))
        printf("killed by %d\n", WTERMSIG(status));
    return status;
}

int main(int argc, char **argv) {
    int untraced = argc > 1 && !strcmp(argv[1], "untraced") ? CLONE_UNTRACED : 0;
    work_starts();
    for (int turn = 0; turn < TIMES; turn++) {
        long own = 0;
        CHECK(ending_of(untraced, &own) == 21 << 8);
        CHECK(own == 0);
        CHECK(ending_of(untraced | CLONE_VM, &own) == 21 << 8);
        CHECK(own == TURNS);
        CHECK(ending_of(untraced | CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND, &shared_with_child) ==
              21 << 8);
        CHECK(ending_of(untraced | CLONE_VM | CLONE_VFORK, &shared_with_child) == 21 << 8);
        /* Waited for like a vfork, but with a copy of the memory. */
        CHECK(ending_of(untraced | CLONE_VFORK, &own) == 21 << 8);
        CHECK(own == TURNS);
        CHECK(shared_with_child == 2L * (turn + 1) * TURNS);
        /* Without an exit signal: only __WALL waits for it. */
        pid_t pid = syscall(SYS_clone, 0, 0, 0, 0, 0);
        CHECK(pid >= 0);
        if (!pid)
            _exit(child(&own));
        int status;
        CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD);
        CHECK(waitpid(pid, &status, __WALL) == pid);
        if (status != 21 << 8)
            printf("ended with status %x\n", (unsigned)status);
        CHECK(status == 21 << 8);
    }
    work_ends();
    puts("cloned");
    return 0;
}
