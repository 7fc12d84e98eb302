// A copy by `rep movsb` against a store into its target and one into its source.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=target functions=copy_bytes,mark_target
//@ expect: what=origin functions=copy_bytes,mark_origin
#include "../lib/crew.h"

static char target[64];
static char origin[64];

KEEP static void copy_bytes(char *to, const char *from, size_t count)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

KEEP static void mark_target(char value)
{
    target[40] = value;
}

KEEP static void mark_origin(char value)
{
    origin[17] = value;
}

static void copier(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        copy_bytes(target, origin, sizeof target);
        busy(2);
    }
}

static void marker(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        mark_target((char)i);
        busy(2);
        mark_origin((char)i);
        busy(2);
    }
}

int main(void)
{
    return run_pair(copier, marker);
}
