// The work-stealing deque of Chase and Lev with relaxed accesses and fences, as published by
// Lê and others.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: push take steal note
//@ twin-expect: what=deque functions=~owner,~thief
#include "../lib/crew.h"
#include <atomic>

using namespace std;

#ifdef TWIN
template <class T> struct shared {
    T value;
    T load(memory_order) { return value; }
    void store(T next, memory_order) { value = next; }
    bool compare_exchange_strong(T &, T next, memory_order, memory_order)
    {
        value = next;
        return true;
    }
};
#else
template <class T> using shared = atomic<T>;
#endif

struct task {
    long input, output;
};

struct {
    shared<long> top, bottom;
    shared<task *> buffer[64];
} deque;

static task tasks[256];
static long done[32];

KEEP static bool push(task *one)
{
    long b = deque.bottom.load(memory_order_relaxed);
    long t = deque.top.load(memory_order_acquire);
    if (b - t > 62)
        return false;
    deque.buffer[b & 63].store(one, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    deque.bottom.store(b + 1, memory_order_relaxed);
    return true;
}

KEEP static task *take()
{
    long b = deque.bottom.load(memory_order_relaxed) - 1;
    deque.bottom.store(b, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    long t = deque.top.load(memory_order_relaxed);
    if (t > b) {
        deque.bottom.store(b + 1, memory_order_relaxed);
        return nullptr;
    }
    task *found = deque.buffer[b & 63].load(memory_order_relaxed);
    if (t == b) {
        if (!deque.top.compare_exchange_strong(t, t + 1, memory_order_seq_cst, memory_order_relaxed))
            found = nullptr;
        deque.bottom.store(b + 1, memory_order_relaxed);
    }
    return found;
}

KEEP static task *steal()
{
    long t = deque.top.load(memory_order_acquire);
    atomic_thread_fence(memory_order_seq_cst);
    long b = deque.bottom.load(memory_order_acquire);
    if (t >= b)
        return nullptr;
    task *found = deque.buffer[t & 63].load(memory_order_relaxed);
    if (!deque.top.compare_exchange_strong(t, t + 1, memory_order_seq_cst, memory_order_relaxed))
        return nullptr;
    return found;
}

static long notes[32];

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

static void owner()
{
    unsigned next = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        // A task is used again only much later than the deque can hold it.
        if (push(&tasks[next % 256]))
            next++;
        if (i % 3 == 0)
            if (task *mine = take())
                done[0] += mine != nullptr;
        note(0);
        busy(4);
    }
}

static void thief()
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (task *theirs = steal())
            done[16] += theirs != nullptr;
        note(1);
        busy(4);
    }
}

int main()
{
    return run_pair(owner, thief);
}
