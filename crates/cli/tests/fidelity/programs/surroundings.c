/* Prints all it can find out about where it runs, before and while its threads work. */
#include "work.h"
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

/* The number of a process among the arguments is another each time. */
static void print_bytes(const char *path, int without_digits) {
    char text[65536];
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t length = read(file, text, sizeof text);
    CHECK(length >= 0 && !close(file));
    printf("%s:", path);
    for (ssize_t at = 0; at < length; at++)
        if (!without_digits || text[at] < '0' || text[at] > '9')
            putchar(text[at] ? text[at] : '|');
    puts("");
}

static void print_link(const char *path) {
    char text[4096];
    ssize_t length = readlink(path, text, sizeof text - 1);
    CHECK(length >= 0);
    printf("%s -> %.*s\n", path, (int)length, text);
}

/* Some lines of a file, by how they begin. */
static void print_lines(const char *path, const char *const starts[]) {
    char line[4096];
    FILE *file = fopen(path, "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        for (int s = 0; starts[s]; s++)
            if (!strncmp(line, starts[s], strlen(starts[s])))
                printf("%s", line);
    fclose(file);
}

/* What is mapped, with which rights: no addresses, they are random. */
static void print_maps(void) {
    char line[4096], rights[8], path[4000];
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file)) {
        path[0] = 0;
        CHECK(sscanf(line, "%*s %7s %*s %*s %*s %3999s", rights, path) >= 1);
        if (path[0])
            printf("map %s %s\n", rights, path);
    }
    fclose(file);
}

static void print_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    int own = dirfd(folder);
    struct dirent *entry;
    while ((entry = readdir(folder)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != own) {
            int fd = atoi(entry->d_name);
            struct stat of;
            CHECK(!fstat(fd, &of));
            printf("descriptor %d: kind %o, flags %o %o\n", fd, of.st_mode & S_IFMT, fcntl(fd, F_GETFD),
                   fcntl(fd, F_GETFL));
        }
    closedir(folder);
}

static void print_signals(void) {
    sigset_t mask;
    stack_t stack;
    CHECK(!sigprocmask(SIG_BLOCK, 0, &mask));
    for (int signal = 1; signal < 65; signal++) {
        struct sigaction action;
        const char *how = "refused";
        if (!sigaction(signal, 0, &action))
            how = action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored" : "handled";
        printf("signal %d: %s, blocked %d\n", signal, how, sigismember(&mask, signal));
    }
    CHECK(!sigaltstack(0, &stack));
    printf("signal stack: flags %d\n", stack.ss_flags);
    nothing_pending();
}

static void print_all(int group) {
    /* What is blocked and ignored is asked of the system calls, which leave out the two of the C
       library: it has them for its own threads, and the tool has threads. */
    static const char *const status[] = {"Name", "Umask", "State", "Uid",     "Gid",     "Groups",  "Threads",
                                         "SigP", "ShdP",     "Cap",     "NoNewPr",
                                         "Seccomp", "Cpus_al", "Mems_allow", 0};
    for (int resource = 0; resource < 16; resource++) {
        struct rlimit limit;
        CHECK(!getrlimit(resource, &limit));
        printf("limit %d: %lx %lx\n", resource, limit.rlim_cur, limit.rlim_max);
    }
    print_link("/proc/self/exe");
    print_link("/proc/self/cwd");
    print_link("/proc/self/root");
    print_link("/proc/self/ns/pid");
    print_link("/proc/self/ns/mnt");
    print_link("/proc/self/ns/user");
    print_bytes("/proc/self/cmdline", 1);
    print_bytes("/proc/self/environ", 0);
    print_bytes("/proc/self/comm", 0);
    print_bytes("/proc/self/cgroup", 0);
    print_bytes("/proc/self/oom_score_adj", 0);
    print_bytes("/proc/self/coredump_filter", 0);
    print_lines("/proc/self/status", status);
    print_maps();
    print_descriptors();
    struct sched_param priority;
    struct itimerval timer;
    CHECK(!sched_getparam(0, &priority) && !getitimer(ITIMER_REAL, &timer));
    int death = -1, reaper = -1;
    CHECK(!prctl(PR_GET_PDEATHSIG, &death) && !prctl(PR_GET_CHILD_SUBREAPER, &reaper));
    printf("nice %d, policy %d %d, timer %ld\n", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0),
           priority.sched_priority, timer.it_value.tv_sec);
    printf("dumpable %d, death signal %d, reaper %d, slack %d, keep capabilities %d\n", prctl(PR_GET_DUMPABLE), death,
           reaper, prctl(PR_GET_TIMERSLACK), prctl(PR_GET_KEEPCAPS));
    printf("personality %x, secure %ld, page %ld\n", personality(0xffffffff), getauxval(AT_SECURE), getauxval(AT_PAGESZ));
    printf("group %s, leader %d, session as the group's %d\n", getpgrp() == group ? "the caller's" : "another",
           getpgrp() == getpid(), getsid(0) == getsid(group));
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    umask(umask(0));
    print_signals();
    print_all(atoi(argv[1]));
    puts("-- and with threads");
    work_starts();
    for (int turn = 0; turn < 5; turn++)
        usleep(20000);
    print_signals();
    print_all(atoi(argv[1]));
    work_ends();
    return 0;
}
