// The boot hang of the paper: a driver updates a status in two steps, from two threads.
//@ race: what=adapter.status truth=harmful category=lost-update
//@ reason: both read, change and write back the word; one thread's bits get lost
#include "../../lib/crew.h"

static struct {
    unsigned id;
    unsigned status;
} adapter;

KEEP static void interrupt_done(unsigned i)
{
    adapter.status = (adapter.status & ~0xff00u) | ((i & 0xff) << 8);
}

KEEP static void power_changed(unsigned i)
{
    adapter.status = (adapter.status & ~0x000fu) | (i & 0xf);
}

REPEAT(interrupts, interrupt_done(i))
REPEAT(power, power_changed(i))

int main(void)
{
    return run_pair(interrupts, power);
}
