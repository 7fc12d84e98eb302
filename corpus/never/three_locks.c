// Three locks taken pairwise: no one lock guards the variable in all threads,
// and yet every two of them exclude each other.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t b = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t c = PTHREAD_MUTEX_INITIALIZER;
static long balance;

KEEP static void guarded_bump(void)
{
    balance++;
}

static void bump_under(pthread_mutex_t *outer, pthread_mutex_t *inner)
{
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
#ifndef TWIN
        pthread_mutex_lock(outer);
        pthread_mutex_lock(inner);
#else
        (void)outer;
#endif
        guarded_bump();
#ifndef TWIN
        pthread_mutex_unlock(inner);
        pthread_mutex_unlock(outer);
#else
        (void)inner;
#endif
        busy(8);
    }
}

static void with_ab(void)
{
    bump_under(&a, &b);
}

static void with_bc(void)
{
    bump_under(&b, &c);
}

static void with_ac(void)
{
    bump_under(&a, &c);
}

int main(void)
{
    const role roles[] = {with_ab, with_bc, with_ac};
    return run_together(3, roles);
}
