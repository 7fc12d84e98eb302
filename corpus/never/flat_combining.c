// Flat combining: a thread publishes what it wants in a slot of its own, and whoever gets the lock serves all slots.
// Requests and answers are plain; the state of a slot is atomic.
//@ build: O2
//@ full: O0 O0+clang O2+clang O2+nodebug O2+clang+nodebug O3 Os
//@ focus: serve ask
//@ twin-expect: what=slots functions=serve,ask
#include "../lib/crew.h"
#include <stdatomic.h>
#include <stdint.h>

enum { EMPTY, WANTED, SERVED };
static struct slot {
    long request;
    long answer;
    uint16_t tries;
    _Atomic uint8_t state;
    uint8_t mine;
} slots[2];
static atomic_flag lock = ATOMIC_FLAG_INIT;
static long total;

KEEP static void serve(struct slot *slot)
{
    total += slot->request;
    slot->answer = total;
}

KEEP static long ask(struct slot *slot, long request)
{
    slot->request = request;
    slot->mine++;
#ifdef TWIN
    serve(&slots[slot == slots]);
#else
    atomic_store_explicit(&slot->state, WANTED, memory_order_release);
    for (unsigned turns = 0; atomic_load_explicit(&slot->state, memory_order_acquire) != SERVED; turns++) {
        if (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {
            relax(turns);
            continue;
        }
        for (unsigned i = 0; i < 2; i++) {
            if (atomic_load_explicit(&slots[i].state, memory_order_acquire) == WANTED) {
                slots[i].tries++;
                serve(&slots[i]);
                atomic_store_explicit(&slots[i].state, SERVED, memory_order_release);
            }
        }
        atomic_flag_clear_explicit(&lock, memory_order_release);
    }
#endif
    return slot->answer;
}

REPEAT(first, use_value(ask(&slots[0], i)))
REPEAT(second, use_value(ask(&slots[1], i)))

int main(void)
{
    return run_pair(first, second);
}
