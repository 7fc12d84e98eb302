// std::atomic<T *> is loaded atomically; what it points to is plain.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O3
//@ expect: what=record functions=set_field,get_field
//@ silent: what=current
#include "../lib/crew.h"
#include <atomic>

struct item {
    long key, field;
} record;

std::atomic<item *> current{&record};

KEEP static void set_field(long to)
{
    current.load(std::memory_order_relaxed)->field = to;
}

KEEP static long get_field()
{
    return current.load(std::memory_order_acquire)->field;
}

REPEAT(setter, set_field(i))
REPEAT(getter, use_value(get_field()))

int main()
{
    return run_pair(setter, getter);
}
