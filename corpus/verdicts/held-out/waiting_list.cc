// A list is pushed to by two threads without a lock.
//@ race: what=waiting truth=harmful category=list-link
//@ reason: of two nodes that are pushed at once one is lost
#include "../../lib/crew.h"

struct Waiter {
    Waiter *next;
    int ticket;
};

static Waiter *waiting;

KEEP static void join(Waiter *waiter)
{
    waiter->next = waiting;
    waiting = waiter;
}

static void guest(void)
{
    static __thread Waiter waiters[8];
    for (unsigned i = 0; i < ROUNDS; i++) {
        join(&waiters[i % 8]);
        busy(4);
    }
}

int main()
{
    return run_pair(guest, guest);
}
