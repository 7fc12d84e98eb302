// The reference count of PLDI 2007: the last one out frees.
//@ race: what=references truth=harmful category=reference-count
//@ reason: two threads can both see zero, or neither
#include "../../lib/crew.h"

static int references = 1;
static unsigned freed;

KEEP static void destroy(void)
{
    freed++;
}

KEEP static void take(void)
{
    references++;
}

KEEP static void put(void)
{
    references--;
    if (references == 0)
        destroy();
}

REPEAT(holder, take(); busy(2); put())

int main(void)
{
    return run_pair(holder, holder);
}
