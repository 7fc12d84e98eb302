// The same node, with a count of its users: the last one frees it, after all reads.
//@ build: O0 O2
//@ full: O2+clang O2+stripped O2+nodebug O2+musl+static
//@ focus: read_node make_node drop_node
//@ twin-expect: what=* functions=read_node,~make_node
#include "../lib/crew.h"

struct node {
    long value;
    long users;
};

static struct node *shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

KEEP static struct node *make_node(long value)
{
    struct node *node = malloc(sizeof *node);
    if (!node)
        exit(1);
    node->value = value;
    node->users = 1;
    return node;
}

KEEP static long read_node(const struct node *node)
{
    return node->value;
}

KEEP static void drop_node(struct node *node)
{
    if (__atomic_fetch_sub(&node->users, 1, __ATOMIC_ACQ_REL) == 1)
        free(node);
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        struct node *node = shared;
#ifndef TWIN
        __atomic_fetch_add(&node->users, 1, __ATOMIC_RELAXED);
#endif
        pthread_mutex_unlock(&lock);
        if (read_node(node) < 0)
            busy(1);
#ifndef TWIN
        drop_node(node);
#endif
        busy(4);
    }
}

static void replacer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct node *node = make_node((long)i);
        pthread_mutex_lock(&lock);
        struct node *old = shared;
        shared = node;
        pthread_mutex_unlock(&lock);
        drop_node(old);
        busy(4);
    }
}

int main(void)
{
    shared = make_node(0);
    return run_pair(reader, replacer);
}
