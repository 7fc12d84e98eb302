// Linked structures without a lock.
//@ race: what=head truth=harmful category=list-link
//@ race: what=ring_start truth=harmful category=list-link
//@ reason: nodes get lost, or are visited after they left
#include "../lib/crew.h"

struct Node {
    Node *next;
    Node *prev;
    int value;
};

static Node *head;
static Node ring[3];
static Node *ring_start = ring;
static unsigned long sum;

KEEP static void push(Node *node)
{
    node->next = head;
    head = node;
}

KEEP static void turn()
{
    ring_start = ring_start->next;
}

static void worker()
{
    static __thread Node nodes[8];
    for (unsigned i = 0; i < ROUNDS; i++) {
        push(&nodes[i & 7]);
        busy(2);
        turn();
        busy(2);
    }
    sum++;
}

int main()
{
    for (int i = 0; i < 3; i++)
        ring[i].next = &ring[(i + 1) % 3];
    return run_pair(worker, worker);
}
