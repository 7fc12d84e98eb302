// A library with an unguarded counter; kernels link or dlopen it.
long tally_total;

__attribute__((noipa)) void tally_add(long amount)
{
    tally_total += amount;
}

__attribute__((noipa)) long tally_read(void)
{
    return tally_total;
}
