// Functions of a shared library are bound on their first call: the loader then
// stores into a table that other threads call through. Two threads make those
// first calls at the same time. The twin binds by hand, in a table of its own,
// and forgets the bindings now and then as a reload would.
//@ build: O0 O2
//@ full: O2+clang
//@ lib: lib/many.c as libmany.so linked
//@ flags: -Wl,-z,lazy -Wl,-z,norelro
//@ focus: add_result bound_call
//@ twin-expect: what=table functions=bound_call,bound_call
#include "../lib/crew.h"

#define EACH(DO) \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#define DECLARE(n) extern long many_##n(long);
EACH(DECLARE)

enum { PASSES = 10000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long result;

KEEP static void add_result(long more)
{
    result += more;
}

#ifndef TWIN
#define CALL(n) sum += many_##n(sum);
#else
typedef long (*function)(long);

static function table[16];

// Addresses do not change, so a binding that is lost or made twice is harmless.
KEEP static long bound_call(unsigned n, function target, long x)
{
    if (table[n] == NULL)
        table[n] = target;
    function call = table[n];
    return call != NULL ? call(x) : x;
}
#define CALL(n) sum += bound_call(n, many_##n, sum);
#endif

static void caller(void)
{
    for (unsigned pass = 0; pass < PASSES; pass++) {
        long sum = 0;
        EACH(CALL)
        pthread_mutex_lock(&lock);
        add_result(sum & 1);
        pthread_mutex_unlock(&lock);
#ifdef TWIN
        for (unsigned n = 0; n < 16; n++)
            table[n] = NULL;
#endif
        busy(100);
    }
}

int main(void)
{
    return run_pair(caller, caller);
}
