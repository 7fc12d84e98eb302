// A 24-bit bit-field is never changed and is read as a whole word, whose last byte is another
// member, which another thread writes. They are two memory locations to C11: no data race.
//@ build: O0 O2
//@ full: O2+clang O1 O3 Os O2+dwarf4 O2+nodebug O2+stripped
//@ focus: read_length set_kind
//@ twin-expect: what=header functions=read_length,set_kind
#include "../lib/crew.h"

struct {
    unsigned length : 24;
    unsigned char kind;
} header = {77, 0};

KEEP static unsigned read_length(void)
{
    return header.length;
}

KEEP static void set_kind(unsigned char to)
{
#ifdef TWIN
    header.length = to;
#else
    header.kind = to;
#endif
}

REPEAT(reader, use_value(read_length()))
REPEAT(setter, set_kind((unsigned char)i))

int main(void)
{
    return run_pair(reader, setter);
}
