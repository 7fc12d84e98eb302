// memcpy reached by a tail call and through a pointer: neither leaves a call in the program
// that names it.
//@ build: O2
//@ expect: what=jumped functions=change_jumped,~copier
//@ expect: what=pointed functions=change_pointed,~copier
#include "../lib/crew.h"
#include <string.h>

static char jumped[32], pointed[32];
static void *(*volatile copies)(void *, const void *, size_t) = memcpy;

KEEP static void *copy(void *to, const void *from, size_t size)
{
    return memcpy(to, from, size);
}

KEEP static void change_jumped(unsigned round)
{
    jumped[20] = (char)round;
}

KEEP static void change_pointed(unsigned round)
{
    pointed[20] = (char)round;
}

static void changer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        change_jumped(i);
        change_pointed(i);
        busy(2);
    }
}

KEEP static void copier(void)
{
    char own[32];
    for (unsigned i = 0; i < ROUNDS; i++) {
        copy(own, jumped, sizeof own);
        busy(1);
        copies(own, pointed, sizeof own);
        __asm__ volatile("" ::"r"(own) : "memory");
    }
}

int main(void)
{
    return run_pair(changer, copier);
}
