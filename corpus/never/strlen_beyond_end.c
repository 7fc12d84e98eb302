// strlen reads by words and so beyond the end of the string, where another thread writes. To
// the source it reads no byte behind the terminator: no data race.
//@ build: O2 O2+static O2+musl+static
//@ full: O0 O2+musl O2+clang O2+clang+static O2+static+stripped O2+musl+static+nodebug
//@ focus: measure poke
//@ twin-expect: what=block.text functions=~measure,poke
#include "../lib/crew.h"
#include <string.h>

struct {
    char text[8];
    char after[56];
} block __attribute__((aligned(64))) = {"abcde", ""};

KEEP static size_t measure(const char *of)
{
    size_t length = strlen(of);
    return length + (size_t)of[0];
}

KEEP static void poke(char value)
{
#ifdef TWIN
    block.text[3] = value;
#else
    block.text[6] = value;
    block.text[7] = value;
    block.after[3] = value;
#endif
}

REPEAT(measurer, use_value(measure(block.text)))
REPEAT(poker, poke((char)('a' + (i & 7))))

int main(void)
{
    return run_pair(measurer, poker);
}
