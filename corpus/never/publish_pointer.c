// A list is built plainly and published by a release store. Its readers follow plain
// pointers from there.
//@ build: O0 O2
//@ full: O2+clang O3 O2+nodebug O2+stripped
// The load is the argument of two nested macros; which of the accesses there it is does not
// show, so it may be possibly atomic.
//@ allow: possibly-atomic
//@ focus: prepend last_of
//@ twin-expect: what=* functions=prepend,last_of
#include "../lib/crew.h"

enum { NODES = 512 };

struct node {
    struct node *next;
    long value;
};

static struct node nodes[NODES];
static struct node *list;

KEEP static void prepend(struct node *node, struct node *before, long value)
{
    node->value = value;
    node->next = before;
}

KEEP static long last_of(const struct node *node)
{
    long value = 0;
    for (unsigned count = 0; node && count < 8; count++) {
        value = node->value;
        node = node->next;
    }
    return value;
}

static void builder(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct node *before = list;
#ifdef TWIN
        prepend(&nodes[i % 2], &nodes[2], (long)i);
        __atomic_store_n(&list, &nodes[0], __ATOMIC_RELEASE);
#else
        if (i % (ROUNDS / NODES + 1) == 0) {
            struct node *node = &nodes[i / (ROUNDS / NODES + 1)];
            prepend(node, before, (long)i);
            __atomic_store_n(&list, node, __ATOMIC_RELEASE);
        }
#endif
        (void)before;
        busy(4);
    }
}

REPEAT(walker, use_value(last_of(__atomic_load_n(&list, __ATOMIC_ACQUIRE))))

int main(void)
{
    return run_pair(builder, walker);
}
