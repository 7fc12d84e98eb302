// memcmp reads whole vectors where that does no harm. The bytes behind those that it was asked
// for are in them, and another thread writes those. In the twin it writes into what is compared.
//@ build: O1 O1+static
//@ full: O1+static+stripped O1+clang O1+nodebug
//@ flags: -fno-builtin-memcmp
//@ focus: change compare
//@ allow: possibly-atomic
//@ twin-expect: what=shared functions=change,~compare
#include "../lib/crew.h"
#include <string.h>

static struct {
    char key[10];
    char neighbour[22];
} shared __attribute__((aligned(64))) = {"0123456789", ""};

KEEP static void change(unsigned round)
{
#ifdef TWIN
    shared.key[3] = (char)('a' + round % 2);
#else
    shared.neighbour[5] = (char)(1 + round % 2);
#endif
}

KEEP static int compare(void)
{
    return memcmp(shared.key, "0123456789", sizeof shared.key);
}

REPEAT(writer, change(i))
REPEAT(reader, use_value(compare()))

int main(void)
{
    return run_pair(writer, reader);
}
