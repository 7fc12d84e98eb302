// The race is plain, and the source was edited after the build so that it looks atomic.
// clang's line table has the checksum of the file that was compiled, so that this can be told.
// The report may be unsure, but it must not be missing.
//@ build: O2+clang
//@ full: O0+clang O3+clang
//@ after-build: sed s/state = to/__atomic_store_n(\&state, to, __ATOMIC_RELAXED)/;s/return state/return __atomic_load_n(\&state, __ATOMIC_RELAXED)/
//@ expect: class=* what=state functions=set_state,get_state
#include "../lib/crew.h"

int state;

KEEP static void set_state(int to)
{
    state = to;
}

KEEP static int get_state(void)
{
    return state;
}

REPEAT(setter, set_state((int)i))
REPEAT(getter, if (get_state() < 0) exit(1))

int main(void)
{
    return run_pair(setter, getter);
}
