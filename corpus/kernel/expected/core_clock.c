// A module reads the kernel's 64-bit tick counter as if it were its own; the
// kernel's clock interrupt counts it up meanwhile. Harmless on this processor,
// a race all the same, and one of its sides is not in the module.
//@ expect: class=special what=jiffies_64 functions=read_clock,tick_do_update_jiffies64 contexts=task,hardirq
//@ race: what=jiffies_64 truth=benign category=special-variable
#include "../lib/crew.h"
#include <linux/jiffies.h>

static u64 seen[2];

KEEP static u64 read_clock(void)
{
    return jiffies_64;
}

static void early(void)
{
    seen[0] = read_clock();
}

static void late(void)
{
    seen[1] = read_clock();
}

CREW_MODULE(early, late, "a module against the kernel's clock");
