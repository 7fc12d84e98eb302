// Two writers of one word.
//@ race: what=node_flags truth=harmful category=lost-update
//@ race: what=status truth=harmful category=lost-update
//@ race: what=small truth=harmful category=lost-update
//@ reason: each writes back the other one's bits as they were before
#include "../lib/crew.h"

static unsigned node_flags;
static struct {
    unsigned up : 1;
    unsigned speed : 3;
    unsigned duplex : 1;
} status;
static unsigned char small;

KEEP static void set_cached(unsigned i) { if (i & 1) node_flags |= 1; else node_flags &= ~1u; }
KEEP static void set_dirty(unsigned i) { if (i & 1) node_flags |= 2; else node_flags &= ~2u; }
KEEP static void set_up(unsigned i) { status.up = i & 1; }
KEEP static void set_speed(unsigned i) { status.speed = i & 7; }
KEEP static void set_low(unsigned i) { small = (unsigned char)((small & 0xf0) | (i & 0xf)); }
KEEP static void set_high(unsigned i) { small = (unsigned char)((small & 0x0f) | (i << 4)); }

REPEAT(one, set_cached(i); busy(1); set_up(i); busy(1); set_low(i))
REPEAT(two, set_dirty(i); busy(1); set_speed(i); busy(1); set_high(i))

int main(void)
{
    return run_pair(one, two);
}
