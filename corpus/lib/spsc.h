// A ring for one sender and one receiver: a library that is nothing but a header.
#ifndef CORPUS_SPSC_H
#define CORPUS_SPSC_H

#include <stdatomic.h>

#define SPSC_SLOTS 8u

struct spsc {
    atomic_uint head, tail;
    long slots[SPSC_SLOTS];
};

static inline int spsc_send(struct spsc *ring, long value)
{
    unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
#ifndef TWIN
    if (tail - atomic_load_explicit(&ring->head, memory_order_acquire) == SPSC_SLOTS)
        return 0;
#endif
    ring->slots[tail % SPSC_SLOTS] = value;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return 1;
}

static inline int spsc_receive(struct spsc *ring, long *value)
{
    unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);
#ifndef TWIN
    if (head == atomic_load_explicit(&ring->tail, memory_order_acquire))
        return 0;
#endif
    *value = ring->slots[head % SPSC_SLOTS];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return 1;
}

#endif
