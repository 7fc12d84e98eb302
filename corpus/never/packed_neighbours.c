// Members of a packed structure at odd addresses, in one word, each with its own thread.
//@ build: O0 O2
//@ full: O2+clang O3 Os
//@ focus: set_short set_int
//@ twin-expect: what=packet functions=set_short,set_int
#include "../lib/crew.h"

struct __attribute__((packed)) {
    char tag;
    unsigned short small;
    unsigned large;
} packet;

KEEP static void set_short(unsigned to)
{
    packet.small = (unsigned short)to;
}

KEEP static void set_int(unsigned to)
{
#ifdef TWIN
    packet.small = (unsigned short)(to + 1);
#endif
    packet.large = to;
}

REPEAT(short_side, set_short(i))
REPEAT(int_side, set_int(i))

int main(void)
{
    return run_pair(short_side, int_side);
}
