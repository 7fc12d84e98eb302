// memset clears the bytes up to an _Atomic member, which another thread stores to.
//@ build: O2
//@ full: O0 O2+clang O2+static O2+nodebug O2+musl+static
//@ focus: reset_name set_state
//@ twin-expect: what=session.name functions=~reset_name,set_state
#include "../lib/crew.h"
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

struct session {
    char name[116];
    atomic_int state;
    char more[100];
} session;

KEEP static int reset_name(size_t size)
{
    memset(&session, 0, size);
    return session.name[0] + 1;
}

KEEP static void set_state(int state)
{
#ifdef TWIN
    session.name[60] = (char)state;
#endif
    atomic_store_explicit(&session.state, state, memory_order_relaxed);
}

REPEAT(resetter, use_value(reset_name(offsetof(struct session, state))))
REPEAT(setter, set_state((int)i))

int main(void)
{
    return run_pair(resetter, setter);
}
