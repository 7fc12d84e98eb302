// The linker keeps one of two functions that have the same bytes. One of them stores plainly, into memory
// of one thread; the other atomically, into memory of both. What stands there may be the name of the plain one.
//@ full: O2 O2+dwarf4 O3
//@ flags: -ffunction-sections -fuse-ld=gold -Wl,--icf=all
//@ focus: store_plain store_atomic load_plain load_atomic
//@ twin-expect: what=level functions=store_plain,load_plain
//@ allow: possibly-atomic
#include "../lib/crew.h"

static long level;
static long own[32];

KEEP void store_plain(long *place, long value)
{
    *place = value;
}

KEEP long load_plain(const long *place)
{
    return *place;
}

#ifdef TWIN
#define store_atomic store_plain
#define load_atomic load_plain
#else
KEEP void store_atomic(long *place, long value)
{
    __atomic_store_n(place, value, __ATOMIC_RELAXED);
}

KEEP long load_atomic(const long *place)
{
    return __atomic_load_n(place, __ATOMIC_RELAXED);
}
#endif

REPEAT(writer, store_atomic(&level, i); store_plain(&own[0], i))
REPEAT(reader, use_value(load_atomic(&level)); use_value(load_plain(&own[16])))

int main(void)
{
    return run_pair(writer, reader);
}
