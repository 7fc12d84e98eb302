// Bit-fields of one word, all of them guarded by a lock of __atomic_test_and_set and
// __atomic_clear that lies in the same struct.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: bump_low bump_high take drop
//@ twin-expect: what=port functions=bump_low,bump_high
#include "../lib/crew.h"
#include <stdbool.h>

struct port {
    bool lock;
    unsigned low : 5;
    unsigned high : 11;
    unsigned parity : 1;
} port;

KEEP static void take(struct port *it)
{
#ifndef TWIN
    for (unsigned turns = 0; __atomic_test_and_set(&it->lock, __ATOMIC_ACQUIRE); turns++)
        while (__atomic_load_n(&it->lock, __ATOMIC_RELAXED))
            relax(turns++);
#else
    (void)it;
#endif
}

KEEP static void drop(struct port *it)
{
#ifndef TWIN
    __atomic_clear(&it->lock, __ATOMIC_RELEASE);
#else
    (void)it;
#endif
}

KEEP static void bump_low(struct port *it)
{
    it->low++;
    it->parity ^= 1;
}

KEEP static void bump_high(struct port *it)
{
    it->high += 3;
    it->parity = it->high & 1;
}

REPEAT(low, take(&port); bump_low(&port); drop(&port))
REPEAT(high, take(&port); bump_high(&port); drop(&port))

int main(void)
{
    return run_pair(low, high);
}
