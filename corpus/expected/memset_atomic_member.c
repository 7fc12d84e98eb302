// memset clears a structure while another thread stores to its _Atomic member: the bytes
// of memset are plain accesses. The size is a constant, so that the compiler itself makes the
// stores: neither the C library nor an access that is atomic in the source is sampled.
//@ build: O2
//@ full: O2+clang O2+static O2+dwarf4
//@ expect: class=race what=session.state functions=~reset_session,set_state
#include "../lib/crew.h"
#include <stdatomic.h>
#include <string.h>

struct {
    char name[120];
    atomic_int state;
    char more[100];
} session;

KEEP static int reset_session(void)
{
    memset(&session, 0, sizeof session);
    return session.name[0] + 1;
}

KEEP static void set_state(int state)
{
    atomic_store_explicit(&session.state, state, memory_order_relaxed);
}

REPEAT(resetter, reset_session())
REPEAT(setter, set_state((int)i))

int main(void)
{
    return run_pair(resetter, setter);
}
