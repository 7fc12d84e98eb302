// Counts amounts, not events: still a statistic.
//@ race: what=bytes_sent truth=benign category=statistics-counter
//@ reason: a sum for a status line; it only grows
#include "../../lib/crew.h"
#include <stdio.h>

static unsigned long bytes_sent;

KEEP static void account(unsigned length)
{
    bytes_sent += length;
}

REPEAT(sender, account(40 + i % 1400))

int main(void)
{
    int status = run_pair(sender, sender);
    printf("%lu bytes\n", bytes_sent);
    return status;
}
