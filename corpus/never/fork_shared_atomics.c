// Two processes share a page at different addresses; all accesses to it are atomic.
// With debug information all accesses are atomic, and none is sampled.
//@ full: O2+nodebug O0+nodebug O2+clang+nodebug
//@ focus: put get
//@ twin-expect: origin=unknown what=* region=shared functions=get
//@ allow: possibly-atomic
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct page {
    long level;
};
static struct page *page;

KEEP static void put(long i)
{
#ifdef TWIN
    page->level = i;
#else
    __atomic_store_n(&page->level, i, __ATOMIC_RELAXED);
#endif
}

KEEP static long get(void)
{
#ifdef TWIN
    return page->level;
#else
    return __atomic_load_n(&page->level, __ATOMIC_RELAXED);
#endif
}

int main(void)
{
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0)
        page = mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)page - (64 << 20));
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (child == 0)
            put(i);
        else
            use_value(get());
        busy(4);
    }
    if (child == 0)
        _exit(0);
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
