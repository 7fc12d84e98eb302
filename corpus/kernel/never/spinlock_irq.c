// A queue's length, changed by a thread with interrupts off and by a timer in
// hard interrupt context, both under one spinlock.
//@ focus: guarded_change
//@ twin-expect: what=queue.length functions=guarded_change,timer_change contexts=task,hardirq
#include "../lib/crew.h"
#include <linux/hrtimer.h>
#include <linux/spinlock.h>

static struct {
    spinlock_t lock;
    unsigned long length;
} queue = {.lock = __SPIN_LOCK_UNLOCKED(queue.lock)};

static struct hrtimer timer;

KEEP static void guarded_change(void)
{
    queue.length++;
}

KEEP static void timer_change(void)
{
    queue.length = 0;
}

static void worker(void)
{
#ifndef TWIN
    unsigned long flags;

    spin_lock_irqsave(&queue.lock, flags);
    guarded_change();
    spin_unlock_irqrestore(&queue.lock, flags);
#else
    guarded_change();
#endif
}

static enum hrtimer_restart on_timer(struct hrtimer *expired)
{
#ifndef TWIN
    spin_lock(&queue.lock);
    timer_change();
    spin_unlock(&queue.lock);
#else
    timer_change();
#endif
    hrtimer_forward_now(expired, ns_to_ktime(500000));
    return HRTIMER_RESTART;
}

// A pinned timer stays on the CPU that starts it, so a thread there does; it
// then keeps that CPU busy.
static void timekeeper(void)
{
    if (!hrtimer_active(&timer))
        hrtimer_start(&timer, ns_to_ktime(500000), HRTIMER_MODE_REL_PINNED_HARD);
}

static int __init spinlock_irq_init(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
    hrtimer_setup(&timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
#else
    hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
    timer.function = on_timer;
#endif
    return crew_start(worker, timekeeper);
}

static void __exit spinlock_irq_exit(void)
{
    crew_stop();
    hrtimer_cancel(&timer);
}

module_init(spinlock_irq_init);
module_exit(spinlock_irq_exit);
CREW_LICENSE("a queue shared with a hard interrupt");
