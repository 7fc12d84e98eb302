// The time, as one thread sets it.
//@ race: what=now_ms truth=benign category=special-variable
//@ reason: known as a variable that one thread moves and all others read
//@ annotate: variable=now_* benign="the time, which one thread moves and all others read"
#include "../lib/crew.h"

static unsigned long now_ms;
static unsigned long late;

KEEP static void move_on(unsigned i) { now_ms = i; }
KEEP static void look(void) { if (now_ms > 7) late++; }

REPEAT(timer, move_on(i))
REPEAT(task, look())

int main(void)
{
    return run_pair(timer, task);
}
