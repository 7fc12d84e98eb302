// The statement has atomic builtins on one member, and a plain access to its neighbour in the
// same statement expression.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+nodebug
//@ expect: what=gauge.plain functions=look,raise
//@ silent: what=gauge.level
#include "../lib/crew.h"

struct {
    long level;
    long plain;
} gauge;

KEEP static long look(long scale)
{
    return scale * ({ long seen; __atomic_load(&gauge.level, &seen, __ATOMIC_RELAXED); seen + gauge.plain; });
}

KEEP static void raise(long by)
{
    __atomic_store_n(&gauge.level, (gauge.plain = by), __ATOMIC_RELEASE);
}

REPEAT(raiser, raise(i % 5 + 1))
REPEAT(looker, use_value(look(i)))

int main(void)
{
    return run_pair(raiser, looker);
}
