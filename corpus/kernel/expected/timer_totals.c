// Totals that a timer counts in softirq context on one CPU and a thread clears
// on another, without a lock.
//@ expect: what=totals.ticks functions=on_tick,take_totals contexts=softirq,task
//@ race: what=totals.ticks truth=harmful category=lost-update
#include "../lib/crew.h"
#include <linux/timer.h>

static struct {
    unsigned long taken;
    unsigned long ticks;
} totals;

KEEP static void on_tick(struct timer_list *timer)
{
    totals.ticks++;
    mod_timer(timer, jiffies + 1);
}

KEEP static unsigned long take_totals(void)
{
    unsigned long ticks = totals.ticks;

    totals.ticks = 0;
    return ticks;
}

static struct timer_list tick;

static void reporter(void)
{
    totals.taken += take_totals();
}

static int __init timer_totals_init(void)
{
    int error = crew_seat(0, reporter);

    if (error)
        return error;
    timer_setup(&tick, on_tick, TIMER_PINNED);
    tick.expires = jiffies + 1;
    add_timer_on(&tick, crew_cpu(1));
    return 0;
}

static void __exit timer_totals_exit(void)
{
    timer_delete_sync(&tick);
    crew_stop();
}

module_init(timer_totals_init);
module_exit(timer_totals_exit);
CREW_LICENSE("a task against a timer");
