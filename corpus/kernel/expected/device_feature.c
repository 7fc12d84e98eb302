// A bit of a word is tested while the only writer changes another one: the
// reader never looks at what changes.
//@ expect: what=device.features functions=has_checksums,toggle_carrier
//@ race: what=device.features truth=benign category=safe-flag-update
#include "../lib/crew.h"

enum { FEATURE_CHECKSUMS = 0x10, CARRIER = 0x1 };

static struct {
    int number;
    unsigned int features;
    unsigned long offloaded;
} device = {.number = 1, .features = FEATURE_CHECKSUMS};

KEEP static void has_checksums(void)
{
    if (device.features & FEATURE_CHECKSUMS)
        device.offloaded++;
}

KEEP static void toggle_carrier(void)
{
    device.features ^= CARRIER;
}

static void send(void)
{
    has_checksums();
    crew_idle(20);
}

static void watch_link(void)
{
    toggle_carrier();
    crew_idle(20);
}

CREW_MODULE(send, watch_link, "a bit tested beside one that changes");
