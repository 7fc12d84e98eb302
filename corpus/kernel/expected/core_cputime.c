// A module reads how much time a CPU has spent in the kernel from the variable
// that each CPU has of its own; the clock interrupt of that CPU counts it up.
//@ expect: what=kernel_cpustat.cpustat[2] functions=read_time,task_group_account_field contexts=task,hardirq
//@ race: what=kernel_cpustat.cpustat[2] truth=benign category=statistics-counter
#include "../lib/crew.h"
#include <linux/kernel_stat.h>

static u64 seen;

KEEP static u64 read_time(const struct kernel_cpustat *of)
{
    return of->cpustat[CPUTIME_SYSTEM];
}

static void reader(void)
{
    seen = read_time(&kcpustat_cpu(crew_cpu(0)));
}

static void spender(void)
{
    crew_idle(200);
}

CREW_MODULE(spender, reader, "a module against the statistics of a CPU");
