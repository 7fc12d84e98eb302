// Following a list compiles to `mov rax,[rax]`: after the access the register
// that held its address is gone. The writer relinks a node meanwhile.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=ring functions=follow,relink
#include "../lib/crew.h"

struct node {
    struct node *next;
    int id;
};

static struct node ring[3];

KEEP static struct node *follow(struct node *from, unsigned steps)
{
    while (steps--)
        from = from->next;
    return from;
}

KEEP static void relink(struct node *node, struct node *next)
{
    node->next = next;
}

static void walker(void)
{
    struct node *at = &ring[0];
    for (unsigned i = 0; i < ROUNDS; i++) {
        at = follow(at, 3);
        busy(4);
    }
}

static void linker(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        relink(&ring[0], &ring[1 + (i & 1)]);
        busy(4);
    }
}

int main(void)
{
    for (int i = 0; i < 3; i++)
        ring[i].next = &ring[(i + 1) % 3];
    return run_pair(walker, linker);
}
