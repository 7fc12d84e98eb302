// One side goes through a volatile pointer, the other one reads the variable as it is.
//@ race: what=should_stop truth=benign category=volatile
//@ reason: a stop mark that is set once and looked at now and then
#include "../../lib/crew.h"

static int should_stop;
static unsigned long done;

KEEP static void request_stop(unsigned i)
{
    *(volatile int *)&should_stop = i > 1000;
}

KEEP static int may_go_on(void)
{
    return !should_stop;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (may_go_on())
            done++;
        busy(4);
    }
}

REPEAT(stopper, request_stop(i))

int main(void)
{
    return run_pair(worker, stopper);
}
