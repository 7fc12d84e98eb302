// A statistics counter among others: half of what DataCollider found.
//@ race: what=statistics.faults truth=benign category=statistics-counter
//@ reason: it is only ever counted up and printed; a lost count is not noticed
#include "../../lib/crew.h"
#include <stdio.h>

static struct {
    unsigned long faults;
    unsigned long reclaimed;
} statistics;

KEEP static void handle_fault(void)
{
    statistics.faults++;
}

REPEAT(worker, handle_fault())

int main(void)
{
    int status = run_pair(worker, worker);
    printf("%lu faults, %lu reclaimed\n", statistics.faults, statistics.reclaimed);
    return status;
}
