/* Filters of system calls, put on by the program itself, for all of its threads. */
#include "work.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static volatile int refused_by_signal;
static void on_sys(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (info->si_syscall == SYS_getppid)
        refused_by_signal++;
}

static void filter(int call, unsigned verdict) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}

/* Only what it needs is allowed from here on: anything done in its name kills it. */
static void allow_little(void) {
    static const int calls[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_futex, SYS_rt_sigreturn,
                                SYS_rt_sigprocmask, SYS_munmap, SYS_madvise, SYS_newfstatat, SYS_fstat,
                                SYS_brk, SYS_mmap, SYS_mprotect, SYS_sched_yield, SYS_clock_nanosleep,
                                SYS_gettid, SYS_rseq, SYS_set_robust_list};
    enum { CALLS = sizeof calls / sizeof *calls };
    struct sock_filter rules[CALLS + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int c = 0; c < CALLS; c++)
        rules[c + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[c], CALLS - c, 0);
    rules[CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    rules[CALLS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {CALLS + 3, rules};
    CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}

static int ending_of(void (*child)(void)) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        child();
        _exit(1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

static void strict(void) {
    volatile long into;
    CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    for (int turn = 0; turn < 1000; turn++)
        sum_to(1000, &into);
    syscall(SYS_exit, sum_to(10, &into));
}

static void killed(void) {
    filter(SYS_getppid, SECCOMP_RET_KILL_PROCESS);
    getppid();
}

int main(void) {
    work_starts();
    int strictly = ending_of(strict), by_filter = ending_of(killed);
    CHECK(strictly == 55 << 8);
    CHECK(WIFSIGNALED(by_filter) && WTERMSIG(by_filter) == SIGSYS);
    filter(SYS_getuid, SECCOMP_RET_ERRNO | EXDEV);
    CHECK(syscall(SYS_getuid) == -1 && errno == EXDEV);
    /* Nobody follows it for the filter's sake: as if there were no tracer. */
    filter(SYS_getgid, SECCOMP_RET_TRACE | 7);
    CHECK(syscall(SYS_getgid) == -1 && errno == ENOSYS);
    handle(SIGSYS, on_sys, 0);
    filter(SYS_getppid, SECCOMP_RET_TRAP);
    for (int turn = 0; turn < 10; turn++)
        getppid();
    CHECK(refused_by_signal == 10);
    printf("mode %d\n", prctl(PR_GET_SECCOMP));
    fflush(stdout);
    allow_little();
    volatile long into;
    for (int turn = 0; turn < 2000; turn++)
        CHECK(sum_to(1000, &into) == 500500);
    work_ends();
    puts("filtered");
    return 0;
}
