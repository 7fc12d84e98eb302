// Both threads go through the same function, a third of a second apart.
//@ expect: what=visits functions=count_visit,count_visit
#include "apart.h"

static long visits;

KEEP static void count_visit(void)
{
    visits++;
}

static void *early(void *unused)
{
    ENTER;
    count_visit();
    LEAVE;
    return unused;
}

static void *late(void *unused)
{
    apart();
    return early(unused);
}

int main(void)
{
    return run_both(early, late);
}
