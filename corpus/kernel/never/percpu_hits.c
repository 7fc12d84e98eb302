// Hits counted by each CPU for itself: by one instruction, and through a
// pointer while preemption is off. The twin counts them in one shared place.
//@ focus: count_hit
//@ twin-expect: what=shared_hits functions=count_hit,count_hit
#include "../lib/crew.h"
#include <linux/percpu.h>

static DEFINE_PER_CPU(unsigned long, hits);
static DEFINE_PER_CPU(unsigned long, rounds);
static unsigned long shared_hits;

KEEP static void count_hit(unsigned long *counter)
{
    (*counter)++;
}

KEEP static void count_round(void)
{
    this_cpu_inc(rounds);
}

static void worker(void)
{
#ifndef TWIN
    count_hit(get_cpu_ptr(&hits));
    put_cpu_ptr(&hits);
#else
    count_hit(&shared_hits);
#endif
    count_round();
}

static int __init percpu_hits_init(void)
{
    return crew_start(worker, worker);
}

static void __exit percpu_hits_exit(void)
{
    unsigned long sum = shared_hits;
    unsigned int cpu;

    crew_stop();
    for_each_possible_cpu(cpu)
        sum += per_cpu(hits, cpu);
    pr_info("%lu hits\n", sum);
}

module_init(percpu_hits_init);
module_exit(percpu_hits_exit);
CREW_LICENSE("counters of each CPU");
