// The time, which one thread moves and all others read.
//@ race: what=clock_ticks truth=benign category=special-variable
//@ reason: a time that is one tick old is as good; known as a variable that is meant to be read so
//@ annotate: variable=clock_ticks benign="the time: one thread moves it, all others read it"
#include "../../lib/crew.h"

static unsigned long clock_ticks;
static unsigned long deadline_misses;

KEEP static void tick(void)
{
    clock_ticks++;
}

KEEP static void check_deadline(unsigned long deadline)
{
    if (clock_ticks > deadline)
        deadline_misses++;
}

REPEAT(timer, tick())
REPEAT(task, check_deadline(i))

int main(void)
{
    return run_pair(timer, task);
}
