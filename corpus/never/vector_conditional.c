// Each of two threads adds up and changes the slots that are its own. The vectorised sum loads all slots and
// masks those that the source does not read.
//@ build: O3
//@ full: O2 O3+clang O3+dwarf4 O0
// Clang reads behind masks in the twin as well.
//@ doubt: *+clang
//@ focus: sum_mine change
//@ twin-expect: what=slots functions=sum_mine,change
//@ allow: possibly-atomic
#include "../lib/crew.h"

#define COUNT 256

static int owner[COUNT];
static int slots[COUNT];

KEEP static int sum_mine(int me)
{
    int sum = 0;
    for (int i = 0; i < COUNT; i++) {
#ifdef TWIN
        sum += slots[i] ^ me;
#else
        if (owner[i] == me)
            sum += slots[i];
#endif
    }
    return sum;
}

KEEP static void change(int i, int value)
{
    slots[i] = value;
}

static void first(void)
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        use_value(sum_mine(0));
        change((i * 2) % COUNT, i);
        busy(2);
    }
}

static void second(void)
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        use_value(sum_mine(1));
        for (unsigned k = 0; k < 8; k++)
            change((i * 2 + k * 2 + 1) % COUNT, i);
        busy(2);
    }
}

int main(void)
{
    for (int i = 0; i < COUNT; i++)
        owner[i] = i % 2;
    return run_pair(first, second);
}
