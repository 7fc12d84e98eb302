// Each thread has its own counter, reached through a pointer that is the same
// in the source and different in each thread.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: bump
//@ twin-expect: what=own_count functions=bump,bump
#include "../lib/crew.h"

#ifndef TWIN
static __thread long own_count;
#else
static long own_count;
#endif

KEEP static void bump(long *count)
{
    (*count)++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        bump(&own_count);
        busy(4);
    }
}

int main(void)
{
    return run_pair(worker, worker);
}
