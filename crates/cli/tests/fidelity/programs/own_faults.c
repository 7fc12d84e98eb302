/* Threads that catch their own SIGSEGV, SIGBUS, SIGFPE and SIGILL and go on behind it. */
#include "work.h"
#include <setjmp.h>
#include <sys/mman.h>

enum { TIMES = 2000, THREADS = 3 };
static __thread sigjmp_buf back;
static __thread void *expected_at;
static volatile long caught[65];

static void recover(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (signal == SIGSEGV && info->si_addr != expected_at)
        signal = 0;
    __atomic_fetch_add(&caught[signal], 1, __ATOMIC_RELAXED);
    siglongjmp(back, 1);
}

static void *faults(void *page) {
    volatile int *nothing = page;
    for (volatile int turn = 0; turn < TIMES; turn++) {
        expected_at = (void *)(nothing + turn % 1024);
        if (!sigsetjmp(back, 1)) {
            nothing[turn % 1024] += 1;
            CHECK(!"written");
        }
        bump(&work.unguarded);
        if (!sigsetjmp(back, 1)) {
            if (turn % 2)
                __asm__ volatile("ud2");
            else
                __asm__ volatile("xor %%edx, %%edx\n mov $1, %%eax\n xor %%ecx, %%ecx\n div %%ecx" ::: "rax", "rcx", "rdx", "cc");
            CHECK(!"gone on");
        }
    }
    return 0;
}

int main(void) {
    void *page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    handle(SIGSEGV, recover, 0);
    handle(SIGILL, recover, 0);
    handle(SIGFPE, recover, 0);
    work_starts();
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_create(&threads[t], 0, faults, page));
    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_join(threads[t], 0));
    work_ends();
    printf("elsewhere %ld, SEGV %ld, ILL %ld, FPE %ld\n", caught[0], caught[SIGSEGV], caught[SIGILL],
           caught[SIGFPE]);
    nothing_pending();
    return 0;
}
