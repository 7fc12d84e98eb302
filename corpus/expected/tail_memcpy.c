// memcpy is called last, so that it is jumped to, and its caller is not on the stack.
//@ build: O2
//@ full: O2+clang O3 O2+static
//@ expect: what=buffer functions=~filler,poke
#include "../lib/crew.h"
#include <string.h>

char buffer[256];
static const char source[256] = "contents";

KEEP static void *fill_buffer(size_t length)
{
    return memcpy(buffer, source, length);
}

KEEP static void poke(size_t at, char value)
{
    buffer[at] = value;
}

REPEAT(filler, fill_buffer(sizeof buffer))
REPEAT(poker, poke(100, (char)i))

int main(void)
{
    return run_pair(filler, poker);
}
