// A block so large that the C library gives it a mapping of its own: it is a block all the same.
//@ build: O0 O2
//@ expect: what=* block=1052656 functions=add,add
#include "../lib/crew.h"
#include <stdlib.h>

/* Whole pages, less the header. */
#define SIZE (1 << 20)

static long *sums;

KEEP static void add(long *to)
{
    *to += 1;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        add(sums + 700);
        busy(4);
    }
}

int main(void)
{
    sums = calloc(SIZE, 1);
    return run_pair(worker, worker);
}
