// Two threads exchange their cells between phases; a barrier ends each phase.
//@ build: O0 O2
//@ full: O2+clang O3
//@ focus: work_on
//@ twin-expect: what=cells functions=work_on,work_on
#include "../lib/crew.h"

enum { PHASES = 5000 };

static long cells[2];
static pthread_barrier_t phase_end;

static void end_phase(void)
{
#ifndef TWIN
    pthread_barrier_wait(&phase_end);
#endif
}

KEEP static void work_on(unsigned cell)
{
    cells[cell]++;
}

static void phases(unsigned start)
{
    for (unsigned phase = 0; phase < PHASES; phase++) {
        for (unsigned i = 0; i < 20; i++) {
            work_on((start + phase) & 1);
            busy(4);
        }
        end_phase();
    }
}

static void first(void)
{
    phases(0);
}

static void second(void)
{
    phases(1);
}

int main(void)
{
    pthread_barrier_init(&phase_end, NULL, 2);
    return run_pair(first, second);
}
