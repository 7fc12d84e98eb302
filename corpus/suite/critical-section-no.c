// A shared maximum that is read and written in a critical section only.
#include <stdio.h>

static int maximum;

int main(void)
{
#pragma omp parallel for
    for (int i = 0; i < 20000; i++) {
#pragma omp critical
        if ((i * 7919) % 20011 > maximum)
            maximum = (i * 7919) % 20011;
    }
    printf("%s\n", maximum > 0 ? "done" : "odd");
    return 0;
}
