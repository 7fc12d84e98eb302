// A mutex and a condition variable for several processes lie in a memfd, which each process maps at another
// address. A thread of the parent uses a third mapping of the same page.
//@ build: O2
//@ full: O0 O2+clang O2+nodebug O2+clang+nodebug
//@ focus: bump
//@ twin-expect: origin=unknown what=* functions=bump
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct page {
    pthread_mutex_t mutex;
    pthread_cond_t even;
    long balance;
    long copies[3];
};

KEEP static void bump(struct page *page, unsigned who)
{
#ifndef TWIN
    pthread_mutex_lock(&page->mutex);
#endif
    page->balance++;
    page->copies[who] = page->balance;
#ifndef TWIN
    if (page->balance % 2 == 0)
        pthread_cond_signal(&page->even);
    pthread_mutex_unlock(&page->mutex);
#endif
}

static struct page *map(int memory)
{
    struct page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (page == MAP_FAILED)
        exit(1);
    return page;
}

static int memory;

static void work(unsigned who)
{
    struct page *page = map(memory);
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        bump(page, who);
        busy(8);
    }
    munmap(page, 4096);
}

static void first(void) { work(0); }
static void second(void) { work(1); }

int main(void)
{
    pthread_mutexattr_t shared_mutex;
    pthread_condattr_t shared_cond;
    memory = memfd_create("page", 0);
    if (memory < 0 || ftruncate(memory, 4096) != 0)
        return 1;
    struct page *page = map(memory);
    pthread_mutexattr_init(&shared_mutex);
    pthread_mutexattr_setpshared(&shared_mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared_mutex, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&page->mutex, &shared_mutex);
    pthread_condattr_init(&shared_cond);
    pthread_condattr_setpshared(&shared_cond, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&page->even, &shared_cond);
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        work(2);
        _exit(0);
    }
    int status, failed = run_pair(first, second);
    return waitpid(child, &status, 0) == child && status == 0 && !failed ? 0 : 1;
}
