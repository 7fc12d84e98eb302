// A function called atomic_add that is not atomic: the name of a function shows nothing.
//@ build: O0 O2
//@ full: O2+clang O3 Os
//@ expect: what=count functions=atomic_add,atomic_add
#include "../lib/crew.h"

int count;

KEEP static int atomic_add(int *counter, int more)
{
    int old = *counter;
    *counter = old + more;
    return old;
}

REPEAT(adder, atomic_add(&count, 1))

int main(void)
{
    return run_pair(adder, adder);
}
