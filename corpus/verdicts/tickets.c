// Counters whose value is used.
//@ race: what=next_ticket truth=harmful category=lost-update
//@ race: what=next_slot truth=harmful category=steers-access
//@ reason: two threads get the same number
#include "../lib/crew.h"

static unsigned next_ticket;
static unsigned next_slot;
// Not static, so that no compiler leaves out what is written to them.
unsigned slots[256];
unsigned long issued[2];

KEEP static unsigned issue(void) { return next_ticket++; }
KEEP static void store(unsigned value) { slots[next_slot++ & 255] = value; }

static void serve(unsigned me)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        issued[me] = issue();
        busy(2);
        store(i);
        busy(2);
    }
}
static void one(void) { serve(0); }
static void two(void) { serve(1); }

int main(void)
{
    return run_pair(one, two);
}
