// Plain as long as the program has one thread, atomic afterwards, as reference counts of C++ libraries are. Some
// compilers make one instruction of both arms.
//@ full: O2 O2+clang O0 Os Os+clang O2+dwarf4 O2+g3
//@ focus: put get note
//@ twin-expect: what=level functions=put,get
//@ allow: possibly-atomic
#include "../lib/crew.h"

static int threads_run;
static long level;
static long notes[32];

KEEP static void put(long value)
{
#ifdef TWIN
    level = value;
#else
    if (threads_run) __atomic_store_n(&level, value, __ATOMIC_RELAXED); else level = value;
#endif
}

KEEP static long get(void)
{
#ifdef TWIN
    return level;
#else
    return threads_run ? __atomic_load_n(&level, __ATOMIC_RELAXED) : level;
#endif
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, put(i); note(0))
REPEAT(reader, use_value(get()); note(1))

int main(void)
{
    put(3);
    use_value(get());
    threads_run = 1;
    return run_pair(writer, reader);
}
