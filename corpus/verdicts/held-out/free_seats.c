// Check, then act: the last seat is sold twice.
//@ race: what=free_seats truth=harmful category=check-then-act
//@ reason: two threads can both see one free seat and both take it
#include "../../lib/crew.h"

static int free_seats = 100;
static unsigned sold;

KEEP static void book(void)
{
    if (free_seats > 0) {
        free_seats--;
        sold++;
    }
}

KEEP static void cancel(void)
{
    free_seats++;
}

REPEAT(customer, book(); cancel())

int main(void)
{
    return run_pair(customer, customer);
}
