// `n++` on a volatile in two threads: volatile orders nothing, and updates are lost.
//@ build: O0 O2 O2+stripped
//@ full: O2+clang O2+nodebug O2+dwarf4
//@ expect: what=n functions=count,count
#include "../lib/crew.h"

static volatile long n;

KEEP static void count(void)
{
    n++;
}

REPEAT(counter, count())

int main(void)
{
    return run_pair(counter, counter);
}
