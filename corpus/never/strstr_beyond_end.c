// strstr reads by masked vectors, where the processor has them, and so beyond the end of the string, where
// another thread writes. To the source it reads no byte behind the terminator: no data race.
//@ build: O2 O2+static+stripped
//@ full: O0 O2+static O2+clang O2+musl
//@ focus: seek poke
//@ twin-expect: what=block.text functions=~seek,poke
#include "../lib/crew.h"
#include <string.h>

struct {
    char text[8];
    char after[56];
} block __attribute__((aligned(64))) = {"abcde", ""};

KEEP static int seek(const char *in, const char *what)
{
    return (strstr(in, what) != 0) + in[0];
}

KEEP static void poke(char value)
{
#ifdef TWIN
    block.text[0] = value;
#else
    block.text[6] = value;
    block.after[3] = value;
    block.after[40] = value;
#endif
}

REPEAT(seeker, use_value(seek(block.text, "cx")))
REPEAT(poker, poke((char)('a' + i % 9)))

int main(void)
{
    return run_pair(seeker, poker);
}
