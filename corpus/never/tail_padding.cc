// A copy of a base class reads the padding at its end, where a member of the derived class lies,
// which another thread writes.
//@ build: O0 O2
//@ full: O2+clang O1 Os O2+dwarf4
//@ focus: take set_mark
//@ allow: possibly-atomic
//@ twin-expect: what=thing functions=take,set_mark
#include "../lib/crew.h"

struct base {
    base() {}
    int number = 0;
    char letter = 'a';
};

struct derived : base {
    char mark = 0;
};

static derived thing;

KEEP static base take(const base *from)
{
    return *from;
}

KEEP static void set_mark(derived *of, char to)
{
#ifdef TWIN
    of->letter = to;
#else
    of->mark = to;
#endif
}

REPEAT(reader, use_value(take(&thing).number))
REPEAT(marker, set_mark(&thing, (char)i))

int main()
{
    return run_pair(reader, marker);
}
