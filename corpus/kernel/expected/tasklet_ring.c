// A ring that a tasklet fills in softirq context on one CPU and a thread on
// another drains: the number of filled slots is changed by both.
//@ expect: what=ring.filled functions=receive_frame,drain_ring contexts=softirq,task
//@ race: what=ring.filled truth=harmful category=lost-update
#include "../lib/crew.h"
#include <linux/interrupt.h>

static struct {
    unsigned int slots[16];
    unsigned int filled;
} ring;

KEEP static void receive_frame(struct tasklet_struct *tasklet)
{
    unsigned int at = ring.filled;

    if (at < ARRAY_SIZE(ring.slots)) {
        ring.slots[at] = at;
        ring.filled = at + 1;
    }
}

KEEP static void drain_ring(void)
{
    ring.filled = 0;
}

static DECLARE_TASKLET(receive_tasklet, receive_frame);

// A tasklet runs on the CPU that schedules it, here as soon as softirqs are
// allowed again.
static void interrupting(void)
{
    local_bh_disable();
    tasklet_schedule(&receive_tasklet);
    local_bh_enable();
}

static void __exit tasklet_ring_exit(void)
{
    crew_stop();
    tasklet_kill(&receive_tasklet);
}

static int __init tasklet_ring_init(void)
{
    return crew_start(drain_ring, interrupting);
}

module_init(tasklet_ring_init);
module_exit(tasklet_ring_exit);
CREW_LICENSE("a task against a tasklet");
