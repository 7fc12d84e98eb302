// The source names the second member of a union; the first one has the same bytes.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ expect: what=packet.as_number functions=set_number,get_number
//@ silent: what=packet.as_flags
#include "../lib/crew.h"

union {
    int as_flags;
    int as_number;
    char as_bytes[4];
} packet;

KEEP static void set_number(int to)
{
    packet.as_number = to;
}

KEEP static int get_number(void)
{
    return packet.as_number;
}

REPEAT(setter, set_number((int)i))
REPEAT(getter, if (get_number() < 0) exit(1))

int main(void)
{
    return run_pair(setter, getter);
}
