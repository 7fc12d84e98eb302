// A counter is changed under a mutex and read without it, by relaxed atomics on both sides. In
// the binary that is a plain store under a lock and a plain load outside: without the source
// nobody can tell it from a forgotten lock.
//@ build: O2 O2+nodebug O2+stripped
//@ full: O0 O2+clang O2+clang+nodebug O2+clang+lines O2+g1
//@ focus: put_one look note
//@ twin-expect: what=left functions=put_one,look
#include "../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long left;
static long notes[32];

KEEP static void put_one(long value)
{
    pthread_mutex_lock(&lock);
#ifdef TWIN
    left = value;
#else
    __atomic_store_n(&left, value, __ATOMIC_RELAXED);
#endif
    pthread_mutex_unlock(&lock);
}

KEEP static long look(void)
{
#ifdef TWIN
    return left;
#else
    return __atomic_load_n(&left, __ATOMIC_RELAXED);
#endif
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(putter, put_one(i); note(0))
REPEAT(looker, use_value(look()); note(1))

int main(void)
{
    return run_pair(putter, looker);
}
