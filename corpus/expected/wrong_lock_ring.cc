// A ring whose sender publishes the index before it fills the slot. The indices are atomic, the
// slots are not, and the order is wrong.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+nodebug
//@ expect: what=ring.slots functions=~send,~receive
//@ silent: what=ring.head
//@ silent: what=ring.tail
#include "../lib/crew.h"
#include <atomic>

static struct {
    std::atomic<unsigned> head, tail;
    struct letter {
        long number;
        double weight;
    } slots[8];
} ring;

KEEP static void send(long number)
{
    unsigned at = ring.tail.load(std::memory_order_relaxed);
    if (at - ring.head.load(std::memory_order_acquire) >= 8)
        return;
    ring.tail.store(at + 1, std::memory_order_release);
    ring.slots[at % 8] = {number, number * 0.5};
}

KEEP static double receive()
{
    unsigned at = ring.head.load(std::memory_order_relaxed);
    if (at == ring.tail.load(std::memory_order_acquire))
        return 0;
    auto &letter = ring.slots[at % 8];
    double sum = letter.number + letter.weight;
    ring.head.store(at + 1, std::memory_order_release);
    return sum;
}

REPEAT(sender, send(i))
REPEAT(receiver, use_value(receive() > 1.0))

int main()
{
    return run_pair(sender, receiver);
}
