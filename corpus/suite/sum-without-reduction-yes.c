// A sum that every thread adds to.
// Data race pair: sum@12:9:R vs. sum@12:9:W
// Data race pair: sum@12:9:W vs. sum@12:9:W
#include <stdio.h>

static long sum;

int main(void)
{
#pragma omp parallel for
    for (int i = 0; i < 200000; i++)
        sum += i % 7;
    printf("%s\n", sum > 0 ? "done" : "odd");
    return 0;
}
