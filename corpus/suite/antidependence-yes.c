// Each iteration reads what the next one writes.
// Data race pair: values[i + 1]@17:21:R vs. values[i]@17:9:W
#include <stdio.h>

enum { COUNT = 20000 };

static int values[COUNT];

int main(void)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = i;
    // Small chunks taken in turn, so that neighbours are often in different
    // threads.
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < COUNT - 1; i++)
        values[i] = values[i + 1] + 1;
    printf("%s\n", values[0] > 0 ? "done" : "odd");
    return 0;
}
