// The words stand in a comment and in a string of the statement, not in its code.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=state.hits functions=note_hit,note_hit
#include "../lib/crew.h"

struct {
    long misses, hits;
} state;

static const char *last;

KEEP static void note_hit(void)
{
    state.hits++; /* should be __atomic_fetch_add(&state.hits, 1, __ATOMIC_RELAXED) */
}

KEEP static const char *describe(void)
{
    return last ? last : "volatile atomic_int hits";
}

REPEAT(noter, note_hit(); if (describe()[0] != 'v') exit(1))

int main(void)
{
    return run_pair(noter, noter);
}
