// The body of the width kernels: WORD is the type, VALUE(i) makes one.
#include "crew.h"

static WORD word;

KEEP WIDTH_TARGET static void store_word(WORD *to, unsigned i)
{
    *to = VALUE(i);
}

KEEP WIDTH_TARGET static void load_word(const WORD *from, WORD *copy)
{
    *copy = *from;
}

static void store_loop(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        store_word(&word, i & 1);
        busy(4);
    }
}

static void load_loop(void)
{
    WORD copy;
    for (unsigned i = 0; i < ROUNDS; i++) {
        load_word(&word, &copy);
        busy(4);
    }
}
