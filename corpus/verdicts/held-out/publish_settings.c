// A pointer is published, and the object behind it is read at once.
//@ race: what=current_settings truth=harmful category=publication
//@ reason: nothing orders the contents of the object before the pointer to it
#include "../../lib/crew.h"

struct settings {
    unsigned limit;
    unsigned rate;
};

static struct settings *current_settings;
static unsigned long used;

KEEP static void reload(unsigned i)
{
    static struct settings slots[16];
    struct settings *fresh = &slots[i % 16];
    fresh->limit = i;
    fresh->rate = i / 2;
    current_settings = fresh;
}

KEEP static void apply(void)
{
    struct settings *now = current_settings;
    if (now)
        used += now->limit;
}

REPEAT(reloader, reload(i))
REPEAT(applier, apply())

int main(void)
{
    return run_pair(reloader, applier);
}
