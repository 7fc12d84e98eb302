/* A program with a SIGTRAP handler of its own: raised, by int3 in its code, and by
   single steps it asked for itself. */
#include "work.h"
#include <ucontext.h>

enum { TIMES = 500, THREADS = 3 };
static long raised, breakpoints, steps, others;

static void trapped(int signal, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    const unsigned char *pc = (const unsigned char *)at->uc_mcontext.gregs[REG_RIP];
    (void)signal;
    if (info->si_code == SI_TKILL)
        __atomic_fetch_add(&raised, 1, __ATOMIC_RELAXED);
    else if (info->si_code == SI_KERNEL && pc[-1] == 0xcc)
        __atomic_fetch_add(&breakpoints, 1, __ATOMIC_RELAXED);
    else if (info->si_code == TRAP_TRACE)
        __atomic_fetch_add(&steps, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
}

static void *traps(void *unused) {
    for (int turn = 0; turn < TIMES; turn++) {
        CHECK(!raise(SIGTRAP));
        bump(&work.unguarded);
        __asm__ volatile("int3");
        bump(&work.unguarded);
    }
    return unused;
}

int main(int argc, char **argv) {
    (void)argv;
    handle(SIGTRAP, trapped, 0);
    work_starts();
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_create(&threads[t], 0, traps, 0));
    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_join(threads[t], 0));
    if (argc > 1)
        for (int turn = 0; turn < TIMES; turn++) {
            long result = turn;
            /* The trap comes after each instruction that starts with the flag set. */
            __asm__ volatile("sub $128, %%rsp\n pushf\n orq $0x100, (%%rsp)\n popf\n"
                             "incq %0\n incq %0\n"
                             "pushf\n andq $~0x100, (%%rsp)\n popf\n nop\n add $128, %%rsp"
                             : "+r"(result)
                             :
                             : "memory", "cc");
            CHECK(result == turn + 2);
        }
    work_ends();
    printf("raised %ld, breakpoints %ld, steps %ld, others %ld\n", raised, breakpoints, steps, others);
    nothing_pending();
    CHECK(raised == TIMES * THREADS && breakpoints == TIMES * THREADS && others == 0);
    return 0;
}
