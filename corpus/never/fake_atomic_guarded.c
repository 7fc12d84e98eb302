// A plain function called atomic_add, a plain type called atomic_count: under a mutex all is
// well, and without it all is not, whatever they are called.
//@ build: O0 O2
//@ full: O2+clang O2+nodebug O3
//@ focus: atomic_add
//@ twin-expect: what=total functions=atomic_add,atomic_add
#include "../lib/crew.h"

typedef struct {
    long atomic_value;
} atomic_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
atomic_count total;

KEEP static void atomic_add(atomic_count *to, long more)
{
    to->atomic_value += more;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
#ifndef TWIN
        pthread_mutex_lock(&lock);
#endif
        atomic_add(&total, 1);
#ifndef TWIN
        pthread_mutex_unlock(&lock);
#endif
        busy(4);
    }
    (void)lock;
}

int main(void)
{
    return run_pair(worker, worker);
}
