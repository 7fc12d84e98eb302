// A register's shadow, changed by a thread and by a timer in softirq context,
// both under a raw spinlock with interrupts off.
//@ focus: thread_write timer_write
//@ twin-expect: what=shadow.control functions=thread_write,timer_write contexts=task,softirq
#include "../lib/crew.h"
#include <linux/spinlock.h>
#include <linux/timer.h>

static struct {
    raw_spinlock_t lock;
    unsigned int control;
} shadow = {.lock = __RAW_SPIN_LOCK_UNLOCKED(shadow.lock)};

static struct timer_list timer;

KEEP static void thread_write(void)
{
    shadow.control |= 1;
}

KEEP static void timer_write(void)
{
    shadow.control &= ~1u;
}

static void locked(crew_role change)
{
#ifndef TWIN
    unsigned long flags;

    raw_spin_lock_irqsave(&shadow.lock, flags);
    change();
    raw_spin_unlock_irqrestore(&shadow.lock, flags);
#else
    change();
#endif
}

static void worker(void)
{
    locked(thread_write);
}

static void on_timer(struct timer_list *expired)
{
    locked(timer_write);
    mod_timer(expired, jiffies + 1);
}

static int __init raw_spinlock_init(void)
{
    int error = crew_seat(0, worker);

    if (error)
        return error;
    timer_setup(&timer, on_timer, TIMER_PINNED);
    timer.expires = jiffies + 1;
    add_timer_on(&timer, crew_cpu(1));
    return 0;
}

static void __exit raw_spinlock_exit(void)
{
    timer_delete_sync(&timer);
    crew_stop();
}

module_init(raw_spinlock_init);
module_exit(raw_spinlock_exit);
CREW_LICENSE("a shadow register under a raw spinlock");
