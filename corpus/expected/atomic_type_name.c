// A type whose name begins with `atomic_`, and which is a plain long.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ expect: what=total functions=add_to_total,read_total
#include "../lib/crew.h"

typedef long atomic_counter;

atomic_counter total;

KEEP static void add_to_total(atomic_counter more)
{
    total = total + more;
}

KEEP static atomic_counter read_total(void)
{
    return total;
}

REPEAT(adder, add_to_total(2))
REPEAT(reader, if (read_total() == -1) exit(1))

int main(void)
{
    return run_pair(adder, reader);
}
