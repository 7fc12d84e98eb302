// A buffer grows by realloc, which moves it, while another thread reads the old one.
//@ build: O0 O2
//@ full: O2+clang O2+static
//@ expect: what=* functions=read_entry,~grow
#include "../lib/crew.h"

static long *table;

KEEP static long read_entry(const long *from)
{
    return from[0];
}

KEEP static void grow(unsigned i)
{
    long *copy = malloc(32);
    long *old = table;
    if (!copy)
        exit(1);
    copy[0] = (long)i;
    __atomic_store_n(&table, copy, __ATOMIC_RELEASE);
    old = realloc(old, 32 + 512);
    free(old);
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (read_entry(__atomic_load_n(&table, __ATOMIC_ACQUIRE)) == -7)
            exit(1);
        busy(4);
    }
}

REPEAT(grower, grow(i))

int main(void)
{
    table = calloc(4, 8);
    return run_pair(reader, grower);
}
