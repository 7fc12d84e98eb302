// Values that steer performance only.
//@ race: what=last_seen truth=benign category=approximate-computation
//@ race: what=load_average truth=benign category=approximate-computation
//@ race: what=hint truth=benign category=approximate-computation
//@ reason: the cache gets a little better or worse, never wrong
//@ annotate: variable=last_seen benign="a time stamp for the replacement"
//@ annotate: variable=load_average benign="an average that a lost sample hardly changes"
//@ annotate: variable=hint benign="where the search begins: it is checked before use"
#include "../lib/crew.h"

static unsigned last_seen;
static unsigned load_average;
static unsigned hint;
static unsigned table[64];
static unsigned long found;

KEEP static void touch(unsigned now)
{
    if (now - last_seen > 2)
        last_seen = now;
}
KEEP static void sample(unsigned load) { load_average = (load_average * 7 + load) / 8; }
KEEP static void search(unsigned wanted)
{
    unsigned at = hint & 63;
    if (table[at] == wanted)
        found++;
    hint = wanted;
}

REPEAT(worker, touch(i); busy(1); sample(i & 15); busy(1); search(i & 63))

int main(void)
{
    return run_pair(worker, worker);
}
