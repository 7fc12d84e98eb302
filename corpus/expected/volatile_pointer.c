// The pointer is volatile, what it points to is not.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ expect: what=target functions=store_through,load_through
#include "../lib/crew.h"

static long target;
static long *volatile pointer = &target;

KEEP static void store_through(long value)
{
    *pointer = value;
}

KEEP static long load_through(void)
{
    return *pointer;
}

REPEAT(storer, store_through(i))
REPEAT(loader, if (load_through() < 0) exit(1))

int main(void)
{
    return run_pair(storer, loader);
}
