// A node is freed and allocated again while a reader stands at it. The reader's load is atomic,
// and the allocator's stores are all that meets it. With debug information the load is known to
// be atomic, and not sampled.
//@ build: O2+nodebug O2+stripped
//@ full: O0+nodebug O2+clang+nodebug
//@ expect: class=race what=* region=heap functions=~read_node,~make_node
#include "../lib/crew.h"

struct node {
    long pad;
    long value;
    long more[4];
};

static struct node *shared;

KEEP static long read_node(const struct node *node)
{
    return __atomic_load_n(&node->value, __ATOMIC_RELAXED);
}

KEEP static struct node *make_node(void)
{
    struct node *node = malloc(sizeof *node);
    if (node == NULL)
        exit(1);
    return node;
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        use_value(read_node(__atomic_load_n(&shared, __ATOMIC_ACQUIRE)));
        busy(4);
    }
}

// The node is away for long, so that readers come to stand at it meanwhile.
static void replacer(void)
{
    for (unsigned i = 0; i < ROUNDS / 100; i++) {
        free(__atomic_load_n(&shared, __ATOMIC_RELAXED));
        busy(400);
        __atomic_store_n(&shared, make_node(), __ATOMIC_RELEASE);
        busy(20);
    }
}

int main(void)
{
    shared = make_node();
    return run_pair(reader, replacer);
}
