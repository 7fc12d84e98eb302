// memcpy is called by a pointer from a table, as in programs that choose one at run time.
//@ build: O0 O2
//@ full: O2+clang O2+static
//@ expect: what=buffer functions=~fill_buffer,poke
#include "../lib/crew.h"
#include <string.h>

char buffer[256];
static const char source[256] = "contents";

static void *(*volatile copier)(void *, const void *, size_t) = memcpy;

KEEP static size_t fill_buffer(size_t length)
{
    copier(buffer, source, length);
    return length + 1;
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
