// A bit-field of 24 bits is read with the byte behind it, which is a member of its own and is
// written by another thread. The elements are reached by an index.
//@ build: O0 O2
//@ full: O2+clang O3 Os O2+dwarf4
//@ focus: get_serial set_mark
//@ allow: possibly-atomic
//@ twin-expect: what=parts functions=get_serial,set_mark class=*
#include "../lib/crew.h"

static struct part {
    unsigned serial : 24;
    unsigned char mark;
} parts[32];

KEEP static unsigned get_serial(unsigned of)
{
    return parts[of].serial;
}

KEEP static void set_mark(unsigned of, unsigned to)
{
#ifdef TWIN
    parts[of].serial = to;
#else
    parts[of].mark = (unsigned char)to;
#endif
}

REPEAT(reader, use_value(get_serial(i & 3)))
REPEAT(marker, set_mark(i & 3, i))

int main(void)
{
    return run_pair(reader, marker);
}
