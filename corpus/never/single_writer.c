// Counters with one writer. Only the writer changes them, so it may read them plainly, or step a
// volatile one; the others read them atomically. Compilers make one `inc` of it.
//@ full: O2 O2+clang O0 O3 O2+clang+nodebug O2+clang+stripped
//@ focus: step look note
//@ twin-expect: what=hits functions=step,look
#include "../lib/crew.h"

static long hits;
static volatile long ticks;
static long notes[32];

KEEP static void step(void)
{
#ifdef TWIN
    hits = hits + 1;
#else
    __atomic_store_n(&hits, hits + 1, __ATOMIC_RELAXED);
    ticks++;
#endif
}

KEEP static long look(void)
{
#ifdef TWIN
    return hits;
#else
    return __atomic_load_n(&hits, __ATOMIC_RELAXED) + ticks;
#endif
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, step(); note(0))
REPEAT(reader, use_value(look()); note(1))

int main(void)
{
    use_value(ticks);
    return run_pair(writer, reader);
}
