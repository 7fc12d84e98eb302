// Check, then act.
//@ race: what=owner truth=harmful category=check-then-act
//@ race: what=last_line truth=harmful category=steers-access
//@ race: what=queue_length truth=harmful category=steers-access
//@ reason: what was checked is no longer so when it is acted upon
#include "../lib/crew.h"

static int owner;
static unsigned last_line;
static unsigned queue_length = 8;
static unsigned lines[64];
static unsigned long sum;

KEEP static void grab(int me)
{
    if (owner == 0) {
        owner = me;
        sum++;
    }
}
KEEP static void drop(void) { owner = 0; }
KEEP static void write_line(unsigned i) { lines[last_line] = i; }
KEEP static void next_line(unsigned i) { last_line = i & 63; }
KEEP static void drain(void)
{
    for (unsigned i = 0; i < queue_length; i++)
        sum += lines[i];
}
KEEP static void enqueue(unsigned i) { queue_length = i & 31; }

REPEAT(one, grab(1); busy(1); write_line(i); busy(1); drain(); drop())
REPEAT(two, grab(2); busy(1); next_line(i); busy(1); enqueue(i); drop())

int main(void)
{
    return run_pair(one, two);
}
