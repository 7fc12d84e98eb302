// A cast to a reference without `volatile` denotes the plain object itself: `const_cast` makes no access atomic.
//@ build: O2
//@ full: O0 O2+clang O0+clang O2+dwarf4
//@ expect: what=level functions=put,get
#include "../lib/crew.h"

static long level;
const long &view = level;

KEEP static void put(long i)
{
    const_cast<long &>(view) = i;
}

KEEP static long get()
{
    return static_cast<long &>(level);
}

REPEAT(writer, put(i))
REPEAT(reader, use_value(get()))

int main()
{
    return run_pair(writer, reader);
}
