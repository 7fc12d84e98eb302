// Pushing to a shared list without a lock: both read the head, both store it,
// and one node is lost. Every node is pushed once, so the list stays acyclic.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=pending.head functions=push,push
#include "../lib/crew.h"
#include <thread>
#include <vector>

namespace work {

struct Node {
    Node *next = nullptr;
    unsigned id = 0;
};

class List {
public:
    KEEP void push(Node *node)
    {
        node->next = head;
        head = node;
    }

private:
    Node *head = nullptr;
};

} // namespace work

static work::List pending;

static void producer(std::vector<work::Node> *nodes)
{
    for (auto &node : *nodes) {
        pending.push(&node);
        busy(4);
    }
}

int main()
{
    std::vector<work::Node> mine(ROUNDS), yours(ROUNDS);
    std::thread first(producer, &mine);
    std::thread second(producer, &yours);
    first.join();
    second.join();
    return 0;
}
