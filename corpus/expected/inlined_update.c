// Both accesses are in functions that the compiler inlines at -O2: the report
// names the inlined function, not the loop that holds it.
//@ build: O2
//@ full: O2+clang
//@ expect: what=gauge.level functions=raise_level,lower_level
#include "../lib/crew.h"

struct {
    long capacity;
    long level;
} gauge;

static inline __attribute__((always_inline)) void raise_level(long by)
{
    gauge.level += by;
}

static inline __attribute__((always_inline)) void lower_level(long by)
{
    gauge.level -= by;
}

static void pump(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        raise_level(3);
        busy(4);
    }
}

static void drain(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        lower_level(2);
        busy(4);
    }
}

int main(void)
{
    return run_pair(pump, drain);
}
