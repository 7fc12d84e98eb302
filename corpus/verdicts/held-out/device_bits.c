// The same with bit-fields: the compiler writes the neighbours back unchanged.
//@ race: what=device truth=benign category=safe-flag-update
//@ reason: one thread alone writes, and the bit that is read is not the one that it changes
#include "../../lib/crew.h"

static struct {
    unsigned removable : 1;
    unsigned reserved : 2;
    unsigned busy : 1;
} device = {1, 0, 0};
static unsigned seen;

KEEP static void ask_removable(void)
{
    if (device.removable)
        seen++;
}

KEEP static void set_busy(unsigned i)
{
    device.busy = i & 1;
}

REPEAT(asker, ask_removable())
REPEAT(setter, set_busy(i))

int main(void)
{
    return run_pair(asker, setter);
}
