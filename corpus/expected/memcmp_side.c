// memcmp compares bytes that another thread changes, where both are equal up to them.
//@ build: O2
//@ full: O0 O2+clang O2+static O2+musl+static
//@ expect: what=key functions=~is_key,change_key
#include "../lib/crew.h"
#include <string.h>

char key[48] = "the same beginning, and more of it that is equal";
static const char wanted[48] = "the same beginning, and more of it that is equal";

KEEP static int is_key(size_t size)
{
    int difference = memcmp(key, wanted, size);
    return difference == 0 ? 1 : 2;
}

KEEP static void change_key(char to)
{
    key[5] = to;
}

REPEAT(comparer, use_value(is_key(sizeof key)))
REPEAT(changer, change_key(i & 1 ? 'a' : wanted[5]))

int main(void)
{
    return run_pair(comparer, changer);
}
