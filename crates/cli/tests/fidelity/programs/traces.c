/* A small debugger: traces children of its own, steps them and puts a breakpoint into
   them, while its threads work. */
#include "work.h"
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

static int stopped_by(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid);
    CHECK(WIFSTOPPED(status));
    return WSTOPSIG(status);
}

/* Answers whether it was reached; what it gives back shows who called it. */
__attribute__((noinline)) static long reached(volatile long *number) { return *number += 1; }

static void asks_for_it(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            _exit(50 + errno);
        raise(SIGSTOP);
        volatile long number = 41;
        _exit(reached(&number));
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status))
        printf("the child could not be traced: errno %d\n", WEXITSTATUS(status) - 50);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    for (int step = 0; step < 5; step++) {
        CHECK(!ptrace(PTRACE_SINGLESTEP, pid, 0, 0));
        CHECK(stopped_by(pid) == SIGTRAP);
    }
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, pid, reached, 0);
    CHECK(!errno);
    CHECK(!ptrace(PTRACE_POKETEXT, pid, reached, (word & ~0xffL) | 0xcc));
    CHECK(!ptrace(PTRACE_CONT, pid, 0, 0));
    CHECK(stopped_by(pid) == SIGTRAP);
    struct user_regs_struct registers;
    CHECK(!ptrace(PTRACE_GETREGS, pid, 0, &registers));
    CHECK(registers.rip == (unsigned long)reached + 1);
    registers.rip--;
    CHECK(!ptrace(PTRACE_SETREGS, pid, 0, &registers));
    CHECK(!ptrace(PTRACE_POKETEXT, pid, reached, word));
    CHECK(!ptrace(PTRACE_CONT, pid, 0, 0));
    CHECK(waitpid(pid, &status, 0) == pid && status == 42 << 8);
}

static void is_attached_to(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            bump(&work.unguarded);
    }
    CHECK(!ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT));
    CHECK(!ptrace(PTRACE_INTERRUPT, pid, 0, 0));
    CHECK(stopped_by(pid) == SIGTRAP);
    struct user_regs_struct registers;
    CHECK(!ptrace(PTRACE_GETREGS, pid, 0, &registers));
    CHECK(!ptrace(PTRACE_DETACH, pid, 0, 0));
    CHECK(!kill(pid, SIGKILL));
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == SIGKILL);
}

int main(void) {
    work_starts();
    for (int round = 0; round < 5; round++) {
        asks_for_it();
        is_attached_to();
    }
    work_ends();
    puts("traced");
    return 0;
}
