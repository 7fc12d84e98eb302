// A counter that one thread counts and another one shows.
//@ race: what=served truth=benign category=statistics-counter
//@ race: what=flushes truth=benign category=statistics-counter
//@ reason: the reader prints it, or starts a flush a little early or late
#include "../lib/crew.h"

static unsigned long served;
static unsigned flushes;
static unsigned long shown, started;

KEEP static void serve(void) { served++; }
KEEP static void show(void) { shown = served; }
KEEP static void flush(void) { flushes++; }
KEEP static void maybe_start(void)
{
    if (flushes > 100)
        started++;
}

REPEAT(server, serve(); busy(1); flush())
REPEAT(status, show(); busy(1); maybe_start())

int main(void)
{
    return run_pair(server, status);
}
