// A parallel loop that adds up without a reduction clause.
//@ build: O0 O2
//@ flags: -fopenmp
//@ expect: what=sum functions=add_squares,add_squares
#include "../lib/crew.h"

static double sum;

KEEP static void add_squares(int count)
{
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < count; i++) {
        sum += (double)i * i;
        busy(4);
    }
}

int main(void)
{
    add_squares(2 * (int)ROUNDS);
    return sum > 0 ? 0 : 1;
}
