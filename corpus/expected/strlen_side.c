// strlen reads the bytes that another thread writes; all of them lie before the end.
//@ build: O0 O2
//@ full: O2+clang O2+static O2+musl O2+musl+static
//@ expect: what=text functions=~measure,poke
#include "../lib/crew.h"
#include <string.h>

char text[64] = "0123456789012345678901234567890123456789";

KEEP static size_t measure(const char *of)
{
    size_t length = strlen(of);
    return length + (size_t)of[0];
}

KEEP static void poke(size_t at, char value)
{
    text[at] = value;
}

REPEAT(measurer, if (measure(text) == 0) exit(1))
REPEAT(poker, poke(3, (char)('a' + (i & 7))))

int main(void)
{
    return run_pair(measurer, poker);
}
