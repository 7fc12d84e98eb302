// One thread writes at once, the other reads a third of a second later.
//@ expect: what=order functions=place_order,look_up
#include "apart.h"

static long order;

KEEP static void place_order(long n)
{
    order = n;
}

KEEP static long look_up(void)
{
    return order;
}

static void *customer(void *unused)
{
    ENTER;
    place_order(7);
    LEAVE;
    return unused;
}

static void *clerk(void *unused)
{
    apart();
    ENTER;
    long seen = look_up();
    LEAVE;
    __asm__ volatile("" : : "r"(seen));
    return unused;
}

int main(void)
{
    return run_both(customer, clerk);
}
