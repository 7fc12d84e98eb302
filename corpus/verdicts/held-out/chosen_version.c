// Which of two functions does a computation: both give the same result.
//@ race: what=use_fast_version truth=benign category=both-values-valid
//@ reason: both versions compute the same; only the speed differs
//@ annotate: variable=use_fast_version benign="both versions compute the same"
#include "../../lib/crew.h"

static int use_fast_version;
static unsigned long total;

KEEP static unsigned slow_double(unsigned value)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < 2; i++)
        sum += value;
    return sum;
}

KEEP static unsigned fast_double(unsigned value)
{
    return value << 1;
}

KEEP static void compute(unsigned i)
{
    total += use_fast_version ? fast_double(i) : slow_double(i);
}

KEEP static void choose(unsigned i)
{
    use_fast_version = (i >> 3) & 1;
}

REPEAT(worker, compute(i))
REPEAT(tuner, choose(i))

int main(void)
{
    return run_pair(worker, tuner);
}
