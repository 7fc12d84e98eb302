// Children that share the parent's memory (a shared mapping) leave their results there; the parent waits
// for each by a pidfd and reads them, while a thread of its own starts the next one in the other half.
//@ build: O2
//@ full: O0 O2+clang O2+nodebug O2+clang+nodebug
//@ focus: collect
//@ twin-expect: origin=unknown what=* region=shared functions=collect
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long *results;

KEEP static void produce(long *half)
{
    for (unsigned i = 0; i < 64; i++)
        half[i] += i + 1;
}

KEEP static long collect(const long *half)
{
    long sum = 0;
    for (unsigned i = 0; i < 64; i++)
        sum += half[i];
    return sum;
}

static int start(long *half)
{
    pid_t child = fork();
    if (child == 0) {
#ifdef TWIN
        for (unsigned i = 0; i < ROUNDS / 4; i++)
            produce(half);
#else
        produce(half);
#endif
        _exit(0);
    }
    int handle = child < 0 ? -1 : (int)syscall(SYS_pidfd_open, child, 0);
    if (handle < 0)
        exit(77);
    return handle;
}

static void finish(int handle)
{
    struct pollfd ended = {.fd = handle, .events = POLLIN};
    siginfo_t info;
    while (poll(&ended, 1, -1) != 1)
        ;
    waitid(P_PIDFD, (id_t)handle, &info, WEXITED);
    close(handle);
}

static void parent(void)
{
    int running = start(results);
    for (unsigned round = 0; round < 60; round++) {
        long *half = results + 64 * (round % 2);
        int next = start(results + 64 * ((round + 1) % 2));
#ifndef TWIN
        finish(running);
#endif
        for (unsigned i = 0; i < 500; i++)
            use_value(collect(half));
#ifdef TWIN
        finish(running);
#endif
        running = next;
    }
    finish(running);
}

static void idle(void)
{
    busy(100000);
}

int main(void)
{
    results = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return results == MAP_FAILED ? 1 : run_pair(parent, idle);
}
