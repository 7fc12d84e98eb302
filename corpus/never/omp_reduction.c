// The sums of a reduction are combined by a loop around a compare-and-swap. Its first load is a plain
// move at the line of the directive, where the source has no expression of its own.
//@ build: O0 O2
//@ full: O3 O2+lto O2+dwarf4 O0+clang O2+clang O2+g1 O2+stripped
//@ flags: -fopenmp
//@ focus: add
//@ allow: possibly-atomic
//@ twin-expect: what=* functions=add,add
#include "../lib/crew.h"

static double weights[64];

KEEP static void add(double *sum, double weight)
{
    *sum += weight;
}

KEEP static double total(void)
{
    double sum = 0;
#ifdef TWIN
#pragma omp parallel for num_threads(2)
#else
#pragma omp parallel for num_threads(2) reduction(+ : sum)
#endif
    for (int i = 0; i < 64; i++)
        add(&sum, weights[i]);
    return sum;
}

int main(void)
{
    for (unsigned i = 0; i < ROUNDS / 20; i++)
        use_value(total());
    return 0;
}
