// A template that gives back a volatile reference, as ACCESS_ONCE does in C++: the access itself is in the
// caller, on the left of an equals sign, and names a plain variable. Clang leaves nothing of the template in its
// debug information when it is inlined, so that its optimised builds show neither that nor its opposite.
//@ build: O2
//@ full: O0 O2+clang O3+clang O2+dwarf4
//@ focus: put get note
//@ allow: possibly-atomic in O2+clang O3+clang
//@ twin-expect: what=level functions=put,get class=*
//@ twin-expect: what=notes functions=note,note
#include "../lib/crew.h"

#ifdef TWIN
template <class T> using marked = T;
#define APART 0
#else
template <class T> using marked = volatile T;
#define APART 16
#endif

template <class T> static inline marked<T> &once(T &place)
{
    return const_cast<marked<T> &>(place);
}

struct gauge {
    long peak;
    long lowest;
};

static long level;
static gauge shared;
static long notes[32];

KEEP static void put(long i)
{
    once(level) = i;
#ifndef TWIN
    const_cast<volatile long &>(shared.peak) = i;
    marked<gauge> &view = shared;
    view.lowest = i;
#endif
}

KEEP static long get()
{
    long sum = once(level);
#ifndef TWIN
    sum += static_cast<const volatile long &>(shared.peak);
    const marked<gauge> *view = &shared;
    sum += view->lowest;
#endif
    return sum;
}

KEEP static void note(unsigned who)
{
    notes[who * APART]++;
}

REPEAT(writer, put(i); note(0))
REPEAT(reader, use_value(get()); note(1))

int main()
{
    return run_pair(writer, reader);
}
