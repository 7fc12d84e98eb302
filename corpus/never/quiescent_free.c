// A pointer that is replaced while others read through it, and freed when every reader has
// passed a quiescent point: the readers' counters are volatile casts, as kernels write them.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: replace look quiesce
//@ twin-expect: what=current functions=replace,~look
#include "../lib/crew.h"
#include <string.h>

#define ONCE(x) (*(volatile __typeof__(x) *)&(x))

struct version {
    long number, copy;
};

static struct version *current;
static struct {
    unsigned long passed;
    char gap[56];
} readers[2];
static int ended;

KEEP static long look(void)
{
#ifdef TWIN
    struct version *seen = current;
#else
    struct version *seen = ONCE(current);
#endif
    return seen->number - seen->copy;
}

KEEP static void quiesce(void)
{
    __sync_synchronize();
    ONCE(readers[1].passed) = ONCE(readers[1].passed) + 1;
    __sync_synchronize();
}

KEEP static void replace(long number)
{
    struct version *next = malloc(sizeof *next), *old = current;
    if (!next)
        exit(1);
    *next = (struct version){.number = number, .copy = number};
    __atomic_thread_fence(__ATOMIC_RELEASE);
#ifdef TWIN
    current = next;
#else
    ONCE(current) = next;
#endif
    __sync_synchronize();
    unsigned long then = ONCE(readers[1].passed);
    for (unsigned turns = 0; ONCE(readers[1].passed) < then + 2 && !ONCE(ended); turns++)
        relax(turns);
    memset(old, 0xee, sizeof *old);
    free(old);
}

static void writer(void)
{
    for (unsigned i = 0; i < ROUNDS / 16; i++)
        replace(i);
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        if (look() != 0)
            abort();
        quiesce();
        busy(2);
    }
    __sync_synchronize();
    ONCE(ended) = 1;
}

int main(void)
{
    current = calloc(1, sizeof *current);
    return run_pair(writer, reader);
}
