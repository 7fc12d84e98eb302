// A sequence lock as C11 wants it: the data are read and written by relaxed atomics between
// fences, and a reader that was overtaken tries again.
//@ build: O0 O2
//@ full: O2+clang O3 O2+nodebug O2+stripped
//@ focus: write_pair read_pair note
//@ twin-expect: what=first functions=write_pair,read_pair
#include "../lib/crew.h"
#include <stdatomic.h>

static atomic_uint sequence;
#ifdef TWIN
long first, second;
#else
atomic_long first, second;
#endif
static long notes[32];

KEEP static void write_pair(long value)
{
#ifdef TWIN
    first = value;
    second = -value;
#else
    unsigned now = atomic_load_explicit(&sequence, memory_order_relaxed);
    atomic_store_explicit(&sequence, now + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&first, value, memory_order_relaxed);
    atomic_store_explicit(&second, -value, memory_order_relaxed);
    atomic_store_explicit(&sequence, now + 2, memory_order_release);
#endif
}

KEEP static long read_pair(void)
{
#ifdef TWIN
    return first + second;
#else
    for (unsigned turns = 0;; turns++) {
        unsigned before = atomic_load_explicit(&sequence, memory_order_acquire);
        long sum = atomic_load_explicit(&first, memory_order_relaxed);
        sum += atomic_load_explicit(&second, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (!(before & 1) && before == atomic_load_explicit(&sequence, memory_order_relaxed))
            return sum;
        relax(turns);
    }
#endif
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, write_pair(i); note(0))
REPEAT(reader, use_value(read_pair()); note(1))

int main(void)
{
    (void)sequence;
    return run_pair(writer, reader);
}
