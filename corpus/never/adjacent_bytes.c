// Neighbouring bytes, each stored and loaded by its own thread. In the twin
// they are bits of one byte.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: set_left set_right get_left get_right
//@ twin-expect: what=doors functions=set_left,set_right
#include "../lib/crew.h"

#ifndef TWIN
static struct {
    unsigned char left;
    unsigned char right;
} doors;
#else
static struct {
    unsigned char left : 1;
    unsigned char right : 1;
} doors;
#endif

KEEP static void set_left(unsigned char open)
{
    doors.left = open;
}

KEEP static void set_right(unsigned char open)
{
    doors.right = open;
}

KEEP static int get_left(void)
{
    return doors.left;
}

KEEP static int get_right(void)
{
    return doors.right;
}

static void left_keeper(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        set_left(i & 1);
        use_value(get_left());
        busy(4);
    }
}

static void right_keeper(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        set_right(i & 1);
        use_value(get_right());
        busy(4);
    }
}

int main(void)
{
    return run_pair(left_keeper, right_keeper);
}
