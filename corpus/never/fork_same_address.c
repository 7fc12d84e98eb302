// After a fork parent and child use the same virtual address for memory of
// their own. In the twin the page is shared. A second thread of the parent runs
// all the time and touches nothing of it.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: step
//@ twin-expect: origin=unknown what=* region=shared functions=step
#include "../lib/crew.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TWIN
#define SHARING MAP_PRIVATE
#else
#define SHARING MAP_SHARED
#endif

static int closing;

KEEP static void step(long *page, long by)
{
    *page += by;
}

static void *bystander(void *unused)
{
    while (!__atomic_load_n(&closing, __ATOMIC_ACQUIRE))
        busy(100);
    return unused;
}

static void steps(long *page, unsigned count, long by)
{
    for (unsigned i = 0; i < count; i++) {
        step(page, by);
        busy(4);
    }
}

int main(void)
{
    long *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, SHARING | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        steps(page, 2 * ROUNDS, 1000);
        _exit(0);
    }
    pthread_t other;
    if (pthread_create(&other, NULL, bystander, NULL) != 0)
        return 1;
    steps(page, ROUNDS, 1);
    __atomic_store_n(&closing, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
