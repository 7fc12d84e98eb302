// `omp atomic` in its four forms: read, write, update and capture.
//@ build: O0 O2
//@ full: O3 O2+nodebug O2+stripped
//@ flags: -fopenmp
//@ focus: count_up reset peek capture note
//@ twin-expect: what=counter functions=count_up,reset
#include "../lib/crew.h"

int counter;
static long notes[32];

#ifdef TWIN
KEEP static void count_up(void)
{
    counter += 1;
}

KEEP static void reset(void)
{
    counter = 0;
}
#else
KEEP static void count_up(void)
{
#pragma omp atomic update
    counter += 1;
}

KEEP static void reset(void)
{
#pragma omp atomic write
    counter = 0;
}
#endif

KEEP static int peek(void)
{
    int seen;
#pragma omp atomic read
    seen = counter;
    return seen;
}

KEEP static int capture(void)
{
    int old;
#pragma omp atomic capture
    {
        old = counter;
        counter = counter + 2;
    }
    return old;
}

KEEP static void note(int who)
{
    notes[who * 16]++;
}

int main(void)
{
#pragma omp parallel for num_threads(2)
    for (int who = 0; who < 2; who++) {
        for (unsigned i = 0; i < ROUNDS; i++) {
            if (who)
                count_up();
            else
                reset();
            if ((i & 15) == 0)
                use_value(peek() + capture());
            note(who);
            busy(4);
        }
    }
    return 0;
}
