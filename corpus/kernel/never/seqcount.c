// A pair of totals under a bare sequence counter, whose writers have a lock of
// their own. What begins a reader's section is a macro here, and a function only
// where it looks at the counter.
//@ focus: add_to_totals read_totals
//@ twin-expect: what=totals functions=add_to_totals,read_totals
#include "../lib/crew.h"
#include <linux/seqlock.h>
#include <linux/spinlock.h>

static DEFINE_SPINLOCK(totals_lock);
static seqcount_t totals_sequence = SEQCNT_ZERO(totals_sequence);
static struct {
    unsigned long packets;
    unsigned long bytes;
} totals;

KEEP static void add_to_totals(unsigned long bytes)
{
    totals.packets++;
    totals.bytes += bytes;
}

KEEP static unsigned long read_totals(void)
{
    unsigned long mean;
#ifndef TWIN
    unsigned int sequence;

    do {
        sequence = read_seqcount_begin(&totals_sequence);
        mean = totals.bytes - totals.packets;
    } while (read_seqcount_retry(&totals_sequence, sequence));
#else
    mean = totals.bytes - totals.packets;
#endif
    return mean;
}

static void writer(void)
{
    spin_lock(&totals_lock);
#ifndef TWIN
    write_seqcount_begin(&totals_sequence);
#endif
    add_to_totals(64);
#ifndef TWIN
    write_seqcount_end(&totals_sequence);
#else
    (void)totals_sequence;
#endif
    spin_unlock(&totals_lock);
    crew_idle(200);
}

static void reader(void)
{
    (void)read_totals();
}

CREW_MODULE(writer, reader, "totals under a sequence counter");
