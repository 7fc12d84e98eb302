// A stack of free nodes whose head is a pointer with a number against reuse: both are exchanged by one locked
// instruction of 16 bytes, and read in halves.
// With debug information all accesses are atomic, and none is sampled.
//@ full: O2+nodebug O2+clang+nodebug O0+nodebug O2+stripped
//@ flags: -mcx16
//@ focus: push pop
//@ twin-expect: what=head functions=push,pop
#include "../lib/crew.h"
#include <stdint.h>

struct node {
    struct node *next;
};

union tagged {
    struct {
        struct node *first;
        uint64_t number;
    };
    __int128 both;
};

static union tagged head __attribute__((aligned(16)));
static struct node nodes[64];

#ifdef TWIN
KEEP static void push(struct node *node)
{
    head.number++;
    use_value(node);
}

KEEP static struct node *pop(void)
{
    head.number += 2;
    return nodes;
}
#else
KEEP static void push(struct node *node)
{
    for (;;) {
        union tagged old, new;
        old.number = __atomic_load_n(&head.number, __ATOMIC_ACQUIRE);
        old.first = __atomic_load_n(&head.first, __ATOMIC_RELAXED);
        __atomic_store_n(&node->next, old.first, __ATOMIC_RELAXED);
        new.first = node;
        new.number = old.number + 1;
        if (__sync_bool_compare_and_swap(&head.both, old.both, new.both))
            return;
    }
}

KEEP static struct node *pop(void)
{
    for (;;) {
        union tagged old, new;
        old.number = __atomic_load_n(&head.number, __ATOMIC_ACQUIRE);
        old.first = __atomic_load_n(&head.first, __ATOMIC_RELAXED);
        if (!old.first)
            return NULL;
        new.first = __atomic_load_n(&old.first->next, __ATOMIC_RELAXED);
        new.number = old.number + 1;
        if (__sync_bool_compare_and_swap(&head.both, old.both, new.both))
            return old.first;
    }
}
#endif

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        struct node *mine = pop();
        if (mine)
            push(mine);
        busy(2);
    }
}

int main(void)
{
    for (unsigned i = 0; i < 64; i++)
        push(&nodes[i]);
    return run_pair(worker, worker);
}
