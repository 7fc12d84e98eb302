/* Threads asleep in system calls that are never restarted once interrupted. No signal
   is sent: whichever of them is interrupted ends the program. They sleep until the
   workers have done their turns. */
#define WORK_AT_LEAST 20000000
#include "work.h"
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { STEP_MS = 15 };

static int go_on(void) { return !__atomic_load_n(&work.over, __ATOMIC_ACQUIRE); }
static const struct timespec step = {0, STEP_MS * 1000000};

/* Calls that sleep for a step at a time, and are to say they slept all of it. */
static int in_epoll_wait(void) {
    static __thread int epoll = -1;
    struct epoll_event event;
    if (epoll < 0)
        epoll = epoll_create1(0);
    return epoll_wait(epoll, &event, 1, STEP_MS) == 0;
}
static int in_epoll_pwait(void) {
    static __thread int epoll = -1;
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    if (epoll < 0)
        epoll = epoll_create1(0);
    return epoll_pwait(epoll, &event, 1, STEP_MS, &none) == 0;
}
static int in_nanosleep(void) { return nanosleep(&step, 0) == 0; }
static int in_clock_nanosleep(void) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += step.tv_nsec;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0) == 0;
}
static int in_usleep(void) { return usleep(STEP_MS * 1000) == 0; }
static int in_poll(void) { return poll(0, 0, STEP_MS) == 0; }
static int in_ppoll(void) { return ppoll(0, 0, &step, 0) == 0; }
static int in_select(void) {
    struct timeval time = {0, STEP_MS * 1000};
    return select(0, 0, 0, 0, &time) == 0;
}
static int in_pselect(void) { return pselect(0, 0, 0, 0, &step, 0) == 0; }
static int in_futex(void) {
    static int word;
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &step, 0, 0) == -1 && errno == ETIMEDOUT;
}
static int in_sigtimedwait(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 5);
    return sigtimedwait(&set, 0, &step) == -1 && errno == EAGAIN;
}
static int in_semtimedop(void) {
    static __thread int set = -1;
    struct sembuf down = {0, -1, 0};
    if (set < 0)
        set = semget(IPC_PRIVATE, 1, 0600);
    int slept = set >= 0 && semtimedop(set, &down, 1, &step) == -1 && errno == EAGAIN;
    if (!slept || !go_on())
        semctl(set, 0, IPC_RMID);
    return slept;
}
static int in_recv(void) {
    static __thread int ends[2] = {-1};
    struct timeval time = {0, STEP_MS * 1000};
    char byte;
    if (ends[0] < 0 && (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
                        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time)))
        return 0;
    return recv(ends[0], &byte, 1, 0) == -1 && errno == EAGAIN;
}
static int in_accept(void) {
    static __thread int listener = -1;
    struct timeval time = {0, STEP_MS * 1000};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 1) ||
            setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time))
            return 0;
    }
    return accept(listener, 0, 0) == -1 && errno == EAGAIN;
}
static int in_condition(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += step.tv_nsec;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&lock);
    int result = pthread_cond_timedwait(&never, &lock, &until);
    pthread_mutex_unlock(&lock);
    return result == ETIMEDOUT;
}

/* Calls that sleep until they are given something at the end. */
static int pipe_ends[2], counter, queue, semaphores, listener, tube[2], locked[2];
static sem_t semaphore;
static pid_t child;
static volatile int *word;

static int in_read(void) {
    char byte;
    return read(pipe_ends[0], &byte, 1) == 1;
}
static int in_eventfd(void) {
    eventfd_t value;
    return eventfd_read(counter, &value) == 0 && value == 1;
}
static int in_msgrcv(void) {
    struct {
        long kind;
        char text[1];
    } message;
    return msgrcv(queue, &message, 1, 0, 0) == 1;
}
static int in_semop(void) {
    struct sembuf down = {0, -1, 0};
    return semop(semaphores, &down, 1) == 0;
}
static int in_sem_wait(void) { return sem_wait(&semaphore) == 0; }
static int in_waitpid(void) {
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}
static int in_recvmsg(void) {
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(tube[0], &message, 0) == 1;
}
static int in_accept_for_long(void) { return accept(listener, 0, 0) >= 0; }
static int in_flock(void) { return flock(locked[1], LOCK_EX) == 0; }
static int in_long_futex(void) {
    return syscall(SYS_futex, word, FUTEX_WAIT, 0, 0, 0, 0) == 0;
}
static int in_long_poll(void) {
    struct pollfd ready = {tube[1], POLLHUP, 0};
    return poll(&ready, 1, -1) == 1;
}
/* Only its interruption ends it, so it is watched from outside. */
static volatile int paused;
static void *in_pause(void *unused) {
    pause();
    paused++;
    return unused;
}

static const struct sleeper {
    const char *name;
    int (*sleep)(void);
    int steps;
} sleepers[] = {
    {"epoll_wait", in_epoll_wait, 1},
    {"epoll_pwait", in_epoll_pwait, 1},
    {"nanosleep", in_nanosleep, 1},
    {"clock_nanosleep", in_clock_nanosleep, 1},
    {"usleep", in_usleep, 1},
    {"poll", in_poll, 1},
    {"ppoll", in_ppoll, 1},
    {"select", in_select, 1},
    {"pselect", in_pselect, 1},
    {"futex with a time", in_futex, 1},
    {"sigtimedwait", in_sigtimedwait, 1},
    {"semtimedop", in_semtimedop, 1},
    {"recv with a time", in_recv, 1},
    {"accept with a time", in_accept, 1},
    {"pthread_cond_timedwait", in_condition, 1},
    {"read", in_read, 0},
    {"eventfd", in_eventfd, 0},
    {"msgrcv", in_msgrcv, 0},
    {"semop", in_semop, 0},
    {"sem_wait", in_sem_wait, 0},
    {"waitpid", in_waitpid, 0},
    {"recvmsg", in_recvmsg, 0},
    {"accept", in_accept_for_long, 0},
    {"flock", in_flock, 0},
    {"futex", in_long_futex, 0},
    {"poll for ever", in_long_poll, 0},
};
enum { SLEEPERS = sizeof sleepers / sizeof *sleepers };

static void *asleep(void *of) {
    const struct sleeper *sleeper = of;
    do {
        errno = 0;
        if (!sleeper->sleep()) {
            printf("%s: errno %d (%s)\n", sleeper->name, errno, strerror(errno));
            fflush(stdout);
            _exit(98);
        }
    } while (sleeper->steps && go_on());
    return 0;
}

/* One that gives way and sleeps between: there are always a few in user code. */
int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    CHECK(!pipe(pipe_ends));
    CHECK((counter = eventfd(0, 0)) >= 0);
    CHECK((queue = msgget(IPC_PRIVATE, 0600)) >= 0);
    CHECK((semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
    CHECK(!sem_init(&semaphore, 0, 0));
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, tube));
    CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK(!bind(listener, (struct sockaddr *)&any, sizeof any) && !listen(listener, 1));
    CHECK(!getsockname(listener, (struct sockaddr *)&any, &length));
    CHECK((locked[0] = memfd_create("lock", 0)) >= 0);
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", locked[0]);
    FILE *again = fopen(path, "r+");
    CHECK(again && (locked[1] = fileno(again)) >= 0);
    CHECK(!flock(locked[0], LOCK_EX));
    word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(word != MAP_FAILED);
    int child_waits[2];
    CHECK(!pipe(child_waits));
    child = fork();
    CHECK(child >= 0);
    if (!child) {
        char byte;
        close(child_waits[1]);
        _exit(read(child_waits[0], &byte, 1) == 1 ? 0 : 1);
    }

    pthread_t threads[SLEEPERS], pauses;
    for (int s = 0; s < SLEEPERS; s++)
        CHECK(!pthread_create(&threads[s], 0, asleep, (void *)&sleepers[s]));
    CHECK(!pthread_create(&pauses, 0, in_pause, 0));
    work_starts();
    work_ends();
    /* All workers have done their turns; now those who wait for something get it. */
    CHECK(write(pipe_ends[1], "", 1) == 1);
    CHECK(!eventfd_write(counter, 1));
    struct {
        long kind;
        char text[1];
    } message = {1, ""};
    CHECK(!msgsnd(queue, &message, 1, 0));
    struct sembuf up = {0, 1, 0};
    CHECK(!semop(semaphores, &up, 1));
    CHECK(!sem_post(&semaphore));
    CHECK(write(child_waits[1], "", 1) == 1);
    CHECK(write(tube[1], "", 1) == 1);
    int caller = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(!connect(caller, (struct sockaddr *)&any, sizeof any));
    CHECK(!flock(locked[0], LOCK_UN));
    CHECK(!shutdown(tube[0], SHUT_RDWR));
    *word = 1;
    CHECK(syscall(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0) == 1);
    for (int s = 0; s < SLEEPERS; s++)
        CHECK(!pthread_join(threads[s], 0));
    CHECK(!paused);
    CHECK(!msgctl(queue, IPC_RMID, 0) && !semctl(semaphores, 0, IPC_RMID));
    printf("%d slept well\n", SLEEPERS + 1);
    return 0;
}
