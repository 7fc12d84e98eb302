// Atomics behind macros that name the variable twice: once in code that is never run, only to check its type,
// and once in the builtin.
//@ full: O2 O2+clang O0 O2+dwarf4 O2+g3
//@ focus: set_level get_level note
//@ twin-expect: what=level functions=set_level,get_level
//@ allow: possibly-atomic
#include "../lib/crew.h"
#include "../lib/checked_atomics.h"

static long level;
static long notes[32];

KEEP static void set_level(long value)
{
#ifdef TWIN
    level = value;
#else
    checked_set(&level, value);
#endif
}

KEEP static long get_level(void)
{
#ifdef TWIN
    return level;
#else
    return checked_get(&level);
#endif
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, set_level(i); note(0))
REPEAT(reader, use_value(get_level()); note(1))

int main(void)
{
    return run_pair(writer, reader);
}
