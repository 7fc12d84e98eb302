// One side is volatile by a cast, the other is plain.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4
//@ expect: what=stop functions=ask_to_stop,is_stopped
#include "../lib/crew.h"

int stop;

KEEP static void ask_to_stop(int to)
{
    *(volatile int *)&stop = to;
}

KEEP static int is_stopped(void)
{
    return stop;
}

REPEAT(asker, ask_to_stop((int)(i & 1)))
REPEAT(worker, use_value(is_stopped()))

int main(void)
{
    return run_pair(asker, worker);
}
