// A node is freed while another thread reads it: the C library writes its links into the
// block. The program's own accesses are in order, but memory in use must not be freed.
//@ build: O0 O2 O2+stripped
//@ full: O2+clang O2+nodebug O2+static
//@ expect: class=race what=* functions=read_node,~drop_node
#include "../lib/crew.h"

struct node {
    long value;
    long more[5];
};

static struct node *shared;

KEEP static long read_node(const struct node *node)
{
    return node->value;
}

KEEP static struct node *make_node(void)
{
    struct node *node = malloc(sizeof *node);
    if (!node)
        exit(1);
    node->value = 7;
    return node;
}

// Returns something of its own, so that the call of free is no jump.
KEEP static int drop_node(struct node *node)
{
    free(node);
    return 1;
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct node *node = __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
        if (node)
            use_value(read_node(node));
        busy(4);
    }
}

REPEAT(replacer, drop_node(__atomic_exchange_n(&shared, make_node(), __ATOMIC_ACQ_REL)))

int main(void)
{
    return run_pair(reader, replacer);
}
