// Figure 4: both threads write the same values, and still one can find CACHED gone.
//@ race: what=object_flags truth=harmful category=looks-redundant
//@ reason: the first of the two updates writes back an old CACHED bit
#include "../../lib/crew.h"

#define NOT_DELETED 0x2u
#define CACHED 0x8u

static unsigned object_flags = NOT_DELETED;
static unsigned lost;

KEEP static void insert(void)
{
    object_flags &= ~NOT_DELETED;
    __asm__ volatile("" ::: "memory");
    object_flags |= CACHED;
    __sync_synchronize();
    if (!(object_flags & CACHED))
        lost++;
}

REPEAT(inserter, insert())

int main(void)
{
    return run_pair(inserter, inserter);
}
