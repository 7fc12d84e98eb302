// One thread replaces a table and frees the old one while the other still looks at it. The
// allocator writes its links into the block.
//@ build: O0 O2 O2+stripped
//@ expect: what=* region=heap functions=look,~drop
#include "../lib/crew.h"
#include <stdlib.h>

struct table {
    long size;
    long used;
    long slots[14];
};

static struct table *_Atomic shared;

KEEP static long look(const struct table *table)
{
    return table->size + table->used;
}

KEEP static void drop(struct table *table)
{
    free(table);
    __asm__ volatile("" ::: "memory");
}

static void replaces(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct table *old = shared;
        struct table *new = malloc(sizeof *new);
        new->size = 14;
        new->used = 3;
        shared = new;
        busy(4);
        drop(old);
    }
}

static void reads(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        (void)look(shared);
        busy(4);
    }
}

int main(void)
{
    shared = calloc(1, sizeof *shared);
    return run_pair(replaces, reads);
}
