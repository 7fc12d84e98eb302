// Statistics that each CPU counts for itself, with preemption off as it should
// be; but another CPU clears them.
//@ expect: what=traffic.packets functions=count_packet,clear_traffic
//@ race: what=traffic.packets truth=harmful category=lost-update
#include "../lib/crew.h"
#include <linux/percpu.h>

struct traffic {
    unsigned long bytes;
    unsigned long packets;
};

static DEFINE_PER_CPU(struct traffic, traffic);

KEEP static void count_packet(struct traffic *own)
{
    own->packets++;
}

KEEP static void clear_traffic(struct traffic *other)
{
    other->packets = 0;
}

static void counter(void)
{
    count_packet(get_cpu_ptr(&traffic));
    put_cpu_ptr(&traffic);
}

static void clearer(void)
{
    clear_traffic(per_cpu_ptr(&traffic, crew_cpu(0)));
}

CREW_MODULE(counter, clearer, "statistics of a CPU cleared by another");
