// strcmp, strchr and memchr stop at the end or at a match, but read by words beyond it, where
// another thread writes.
//@ build: O2 O2+static O2+musl+static
//@ full: O2+clang O0+static O2+static+nodebug
//@ focus: compare poke
//@ twin-expect: what=block.text functions=~compare,poke
#include "../lib/crew.h"
#include <string.h>

struct {
    char text[8];
    char after[56];
} block __attribute__((aligned(64))) = {"abc", ""};

static const char other[] = "abcdefghijklmnopqrstuvwxyz";

KEEP static long compare(const char *of)
{
    long order = strcmp(of, other);
    const char *at = strchr(of, 'c');
    const char *end = memchr(of, '\0', 64);
    return order + (at - of) + (end - of);
}

KEEP static void poke(char value)
{
#ifdef TWIN
    block.text[1] = value;
#else
    block.text[5] = value;
    block.after[9] = value;
#endif
}

REPEAT(comparer, use_value(compare(block.text)))
REPEAT(poker, poke((char)('d' + (i & 7))))

int main(void)
{
    return run_pair(comparer, poker);
}
