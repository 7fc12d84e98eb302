// A temporary variable that should have been private to each thread.
// Data race pair: temporary@15:9:W vs. temporary@16:22:R
#include <stdio.h>

enum { COUNT = 50000 };

static int input[COUNT], output[COUNT];

int main(void)
{
    int temporary = 0;
    input[0] = 1;
#pragma omp parallel for
    for (int i = 0; i < COUNT; i++) {
        temporary = input[i] + i;
        output[i] += temporary;
    }
    printf("%s\n", output[1] >= 0 ? "done" : "odd");
    return 0;
}
