// One arm stores atomically, the other plainly, and the compiler makes one store of both.
// Only the plain arm is ever taken.
//@ build: O0 O2
//@ full: O2+clang O3
//@ expect: what=value functions=set_value,get_value
#include "../lib/crew.h"

int value;

KEEP static void set_value(int careful, int to)
{
    if (careful)
        __atomic_store_n(&value, to, __ATOMIC_RELAXED);
    else
        value = to;
}

KEEP static int get_value(void)
{
    return value;
}

REPEAT(setter, set_value(0, (int)i))
REPEAT(getter, if (get_value() < 0) exit(1))

int main(void)
{
    return run_pair(setter, getter);
}
