// A queue lock: every thread waits at a node on its own stack, which its predecessor clears
// with a release store through a pointer.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: enter leave guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <stdatomic.h>

struct node {
    _Atomic(struct node *) next;
    atomic_bool waits;
};

static _Atomic(struct node *) tail;
static struct {
    long money;
    double rate;
} balance;

KEEP static void enter(struct node *mine)
{
#ifndef TWIN
    mine->next = NULL;
    mine->waits = 1;
    struct node *before = atomic_exchange(&tail, mine);
    if (before) {
        before->next = mine;
        for (unsigned turns = 0; mine->waits; turns++)
            relax(turns);
    }
#else
    (void)mine, (void)tail;
#endif
}

KEEP static void leave(struct node *mine)
{
#ifndef TWIN
    struct node *self = mine;
    if (!mine->next) {
        if (atomic_compare_exchange_strong(&tail, &self, NULL))
            return;
        for (unsigned turns = 0; !mine->next; turns++)
            relax(turns);
    }
    atomic_store_explicit(&mine->next->waits, 0, memory_order_release);
#else
    (void)mine;
#endif
}

KEEP static void guarded_bump(void)
{
    balance.money++;
    balance.rate = balance.money * 0.5;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        struct node mine;
        enter(&mine);
        guarded_bump();
        leave(&mine);
        busy(4);
    }
}

int main(void)
{
    return run_pair(worker, worker);
}
