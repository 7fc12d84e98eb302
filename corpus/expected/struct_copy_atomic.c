// A structure with an atomically used member is copied as a whole, which reads it plainly.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ expect: what=settings.level functions=~snapshot,set_level
#include "../lib/crew.h"
#include <stdatomic.h>

struct settings {
    long a;
    int level;
    int b;
};

static struct settings settings;

KEEP static long snapshot(void)
{
    struct settings copy = settings;
    __asm__ volatile("" : : "r"(&copy) : "memory");
    return copy.level + copy.a;
}

KEEP static void set_level(int level)
{
    __atomic_store_n(&settings.level, level, __ATOMIC_RELAXED);
}

REPEAT(reader, if (snapshot() < 0) exit(1))
REPEAT(setter, set_level((int)i & 7))

int main(void)
{
    return run_pair(reader, setter);
}
