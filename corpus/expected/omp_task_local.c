// Two tasks share a local variable of the function that makes them.
//@ build: O0 O2
//@ full: O3
//@ flags: -fopenmp
//@ expect: what=* region=stack functions=add_to,add_to
#include "../lib/crew.h"

KEEP static void add_to(int *sum)
{
    *sum += 1;
}

KEEP static int tasks(void)
{
    int sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task shared(sum)
        for (unsigned i = 0; i < ROUNDS; i++) {
            add_to(&sum);
            busy(4);
        }
#pragma omp task shared(sum)
        for (unsigned i = 0; i < ROUNDS; i++) {
            add_to(&sum);
            busy(4);
        }
    }
    return sum;
}

int main(void)
{
    return tasks() > 0 ? 0 : 1;
}
