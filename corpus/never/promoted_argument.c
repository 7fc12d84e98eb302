// A function reads what its argument points to only if the entry is the caller's own. LLVM reads it for the
// function, before the call and in any case.
//@ build: O2+clang+lto
//@ full: O0 O2 O2+lto O2+clang O3+clang+lto
//@ focus: ask set_data
//@ allow: possibly-atomic
//@ twin-expect: what=table functions=~ask,set_data class=*
#include "../lib/crew.h"

struct entry {
    int owner, data;
};
static struct entry table[2];
static struct entry own = {2, 5};

// Not kept as it is: the compiler may change its parameters.
static __attribute__((noinline)) int look(const struct entry *entry, int me, int wanted)
{
    return entry->owner == me && entry->data == wanted;
}

KEEP static int ask(int me, const struct entry *own)
{
    return look(&table[0], me, own->data) + look(&table[1], 7, own->data);
}

KEEP static void set_data(int to)
{
    table[0].data = to;
}

REPEAT(asker, use_value(ask(2, &own)))
REPEAT(setter, set_data((int)i))

int main(void)
{
#ifdef TWIN
    table[0].owner = 2;
#else
    table[0].owner = 1;
#endif
    return run_pair(asker, setter);
}
