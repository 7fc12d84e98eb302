// Two bit-fields that `:0` keeps in separate memory locations, each written by its own
// thread. In the twin they share one.
//@ build: O0 O2
//@ full: O2+clang O3 O2+dwarf4
//@ focus: set_left set_right
//@ twin-expect: what=pair functions=set_left,set_right
#include "../lib/crew.h"

struct {
    unsigned char left : 4;
#ifndef TWIN
    unsigned char : 0;
#endif
    unsigned char right : 4;
} pair;

KEEP static void set_left(unsigned to)
{
    pair.left = to & 15;
}

KEEP static void set_right(unsigned to)
{
    pair.right = to & 15;
}

REPEAT(left_side, set_left(i))
REPEAT(right_side, set_right(i))

int main(void)
{
    return run_pair(left_side, right_side);
}
