// strcpy writes over the string that another thread reads.
//@ build: O0 O2
//@ full: O2+clang O2+static
//@ expect: what=text functions=~rename_it,peek
#include "../lib/crew.h"
#include <string.h>

char text[64];
static const char *const names[2] = {"a name of some length, in two parts", "another name, nearly the same length"};

KEEP static size_t rename_it(const char *to)
{
    char *end = strcpy(text, to);
    return (size_t)(end - text) + 1;
}

KEEP static char peek(size_t at)
{
    return text[at];
}

REPEAT(renamer, rename_it(names[i & 1]))
REPEAT(peeker, if (peek(9) == '!') exit(1))

int main(void)
{
    return run_pair(renamer, peeker);
}
