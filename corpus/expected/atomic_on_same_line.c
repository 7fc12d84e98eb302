// A plain update and an atomic one on the same line. Only the plain one races.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ expect: what=plain_count functions=count_both,count_both
//@ silent: what=true_count
#include "../lib/crew.h"
#include <stdatomic.h>

int plain_count;
static atomic_int true_count;

// clang-format off
KEEP static void count_both(void)
{
    plain_count++; atomic_fetch_add(&true_count, 1);
}
// clang-format on

REPEAT(counter, count_both())

int main(void)
{
    return run_pair(counter, counter);
}
