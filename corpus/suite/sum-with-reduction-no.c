// The same sum with a reduction: every thread has its own part.
#include <stdio.h>

int main(void)
{
    long sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 200000; i++)
        sum += i % 7;
    printf("%s\n", sum > 0 ? "done" : "odd");
    return 0;
}
