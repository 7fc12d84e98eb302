// mtx_t, cnd_t and thrd_t of C11: a queue of one, and a counter that mtx_trylock guards.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: put get count_some
//@ twin-expect: what=counted functions=count_some,count_some
#include "../lib/crew.h"
#include <threads.h>

static mtx_t lock, other;
static cnd_t changed;
static int full;
static long box, counted;

KEEP static void put(long value)
{
    mtx_lock(&lock);
    while (full)
        cnd_wait(&changed, &lock);
    box = value;
    full = 1;
    cnd_signal(&changed);
    mtx_unlock(&lock);
}

KEEP static long get(void)
{
    mtx_lock(&lock);
    while (!full)
        cnd_wait(&changed, &lock);
    long value = box;
    full = 0;
    cnd_signal(&changed);
    mtx_unlock(&lock);
    return value;
}

KEEP static void count_some(void)
{
#ifdef TWIN
    counted++;
#else
    if (mtx_trylock(&other) != thrd_success)
        return;
    counted++;
    mtx_unlock(&other);
#endif
}

static int putter(void *nothing)
{
    for (unsigned i = 0; i < ROUNDS / 40; i++) {
        put(i);
        for (unsigned k = 0; k < 20; k++)
            count_some();
    }
    return nothing != NULL;
}

static int getter(void *nothing)
{
    for (unsigned i = 0; i < ROUNDS / 40; i++) {
        if (get() != (long)i)
            abort();
        for (unsigned k = 0; k < 20; k++)
            count_some();
    }
    return nothing != NULL;
}

int main(void)
{
    thrd_t threads[2];
    int status = 1;
    mtx_init(&lock, mtx_plain);
    mtx_init(&other, mtx_plain);
    cnd_init(&changed);
    if (thrd_create(&threads[0], putter, NULL) || thrd_create(&threads[1], getter, NULL))
        return 1;
    thrd_join(threads[0], &status);
    thrd_join(threads[1], &status);
    return status;
}
