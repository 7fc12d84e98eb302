// A producer counts what it has written into a ring; the consumer waits while the count has
// not grown.
//@ race: what=written truth=benign category=both-values-valid
//@ reason: an old count only makes the consumer wait longer
//@ annotate: variable=written benign="an old count makes the consumer wait a little longer"
#include "../../lib/crew.h"

#define RING 64u
static unsigned ring[RING];
static unsigned written;
static unsigned long consumed;

KEEP static void produce(unsigned i)
{
    ring[i % RING] = i;
    __asm__ volatile("" ::: "memory");
    written = i + 1;
}

KEEP static unsigned available(unsigned taken)
{
    return written - taken;
}

static void consumer(void)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (available(taken) > 0) {
            taken++;
            consumed++;
        }
        busy(4);
    }
}

REPEAT(producer, produce(i))

int main(void)
{
    return run_pair(producer, consumer);
}
