// The reader comes first, in a structure on the heap, and the writer follows.
//@ expect: what=* region=heap functions=check,charge
#include "apart.h"
#include <stdlib.h>

struct account {
    long number;
    long balance;
};

static struct account *shared;

KEEP static long check(const struct account *account)
{
    return account->balance;
}

KEEP static void charge(struct account *account, long fee)
{
    account->balance = fee;
}

static void *auditor(void *unused)
{
    ENTER;
    long seen = check(shared);
    LEAVE;
    __asm__ volatile("" : : "r"(seen));
    return unused;
}

static void *cashier(void *unused)
{
    apart();
    ENTER;
    charge(shared, 3);
    LEAVE;
    return unused;
}

int main(void)
{
    shared = calloc(1, sizeof *shared);
    return shared ? run_both(auditor, cashier) : 1;
}
