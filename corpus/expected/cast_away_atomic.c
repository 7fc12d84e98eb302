// The object is _Atomic, but both sides access it through a pointer to a plain int.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ expect: what=level functions=set_level,get_level
#include "../lib/crew.h"
#include <stdatomic.h>

atomic_int level;
static int *const plain = (int *)&level;

KEEP static void set_level(int to)
{
    *plain = to;
}

KEEP static int get_level(void)
{
    return *plain;
}

REPEAT(setter, set_level((int)i))
REPEAT(getter, use_value(get_level()))

int main(void)
{
    return run_pair(setter, getter);
}
