// A counter with one writer, which steps it by an instruction in assembly so that its readers see whole values. No
// lock is needed, and the readers load it atomically.
//@ build: O2+nodebug O2
//@ full: O2+stripped O0+nodebug Os+nodebug O2+clang+nodebug
//@ allow: possibly-atomic
//@ focus: step look
//@ twin-expect: class=* what=hits functions=step,look
#include "../lib/crew.h"

static long hits;

KEEP static void step(void)
{
#ifdef TWIN
    hits++;
#else
    __asm__ volatile("incq %0" : "+m"(hits));
#endif
}

KEEP static long look(void)
{
#ifdef TWIN
    return hits;
#else
    return __atomic_load_n(&hits, __ATOMIC_RELAXED);
#endif
}

REPEAT(writer, step())
REPEAT(reader, use_value(look()))

int main(void)
{
    return run_pair(writer, reader);
}
