// Atomics chosen by _Generic, with pasted names, so that neither the statement nor the macro spells a builtin out.
//@ full: O2 O2+clang O0 O2+g3
//@ focus: put get note
//@ twin-expect: what=level functions=put,get
//@ allow: possibly-atomic
#include "../lib/crew.h"

#define JOIN(a, b) a##b
#define PASTE(a, b) JOIN(a, b)
#define ORDER(word) PASTE(__ATOMIC_, word)
#define DO(verb) PASTE(__atomic_, verb)
#define GET(place) _Generic(*(place), long: DO(load_n)(place, ORDER(RELAXED)), default: *(place))
#define SET(place, value) \
    _Generic(*(place), long: DO(store_n)(place, value, ORDER(RELAXED)), default: (void)(*(place) = (value)))

static long level;
static long notes[32];

KEEP static void put(long i)
{
#ifdef TWIN
    level = i;
#else
    SET(&level, i);
#endif
}

KEEP static long get(void)
{
#ifdef TWIN
    return level;
#else
    return GET(&level);
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
    return run_pair(writer, reader);
}
