// Counters of each processor, guarded by the kernel's restartable sequences: a thread that is stopped or moved
// between the load and the store starts again.
//@ build: O2
//@ full: O0 O2+clang O2+nodebug O2+nopie
//@ focus: count_here
//@ twin-expect: what=counters functions=count_here,count_here
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <stddef.h>
#include <sys/rseq.h>

struct cell {
    long value;
    char room[56];
};
static struct cell counters[1024];

#ifdef TWIN
KEEP static void count_here(struct rseq *here)
{
    counters[here->cpu_id % 1024].value++;
}
#else
KEEP static void count_here(struct rseq *here)
{
    for (;;) {
        unsigned cpu = *(volatile unsigned *)&here->cpu_id_start;
        long *place = &counters[cpu % 1024].value;
        __asm__ goto(
            ".pushsection __rseq_cs, \"aw\"\n\t"
            ".balign 32\n\t"
            "3:\n\t"
            ".long 0, 0\n\t"
            ".quad 1f, (2f - 1f), 4f\n\t"
            ".popsection\n\t"
            "leaq 3b(%%rip), %%rax\n\t"
            "movq %%rax, 8(%[here])\n\t"
            "1:\n\t"
            "cmpl %[cpu], 4(%[here])\n\t"
            "jnz %l[again]\n\t"
            "movq (%[place]), %%rcx\n\t"
            "addq $1, %%rcx\n\t"
            "movq %%rcx, (%[place])\n\t"
            "2:\n\t"
            ".pushsection __rseq_failure, \"ax\"\n\t"
            ".byte 0x0f, 0xb9, 0x3d\n\t"
            ".long 0x53053053\n\t"
            "4:\n\t"
            "jmp %l[again]\n\t"
            ".popsection\n\t"
            :
            : [here] "r"(here), [cpu] "r"(cpu), [place] "r"(place)
            : "rax", "rcx", "memory", "cc"
            : again);
        return;
    again:;
    }
}
#endif

static void worker(void)
{
    char *self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    struct rseq *here = (struct rseq *)(self + __rseq_offset);
    for (unsigned i = 0; i < ROUNDS; i++) {
        count_here(here);
        busy(2);
    }
}

int main(void)
{
    if (__rseq_size == 0)
        return 77;
    const role roles[4] = {worker, worker, worker, worker};
    return run_together(4, roles);
}
