// A time stamp that decides what a cache replaces.
//@ race: what=entry.last_used truth=benign category=approximate-computation
//@ reason: a stamp that is a little old makes the cache a little worse, never wrong
//@ annotate: variable=entry field=last_used benign="a time stamp for the replacement in a cache"
#include "../../lib/crew.h"

struct cache_entry {
    unsigned key;
    unsigned last_used;
};

static struct cache_entry entry;
static unsigned evictions;

KEEP static void touch(unsigned now)
{
    entry.last_used = now;
}

KEEP static void scan(unsigned now)
{
    if (now - entry.last_used > 1000)
        evictions++;
}

REPEAT(user, touch(i))
REPEAT(scanner, scan(i))

int main(void)
{
    return run_pair(user, scanner);
}
