// memset and memcpy over a structure with an _Atomic member, as calls of the C library and under the mutex that
// those take who store to the member. The twin takes none: the copies are plain accesses to the member.
//@ build: O2
//@ full: O0 O0+clang O2+clang O3 Os O2+dwarf4
//@ focus: set_state get_state
//@ twin-expect: what=session.state functions=~reset_session,set_state
//@ twin-expect: what=session.state functions=~save_session,set_state
//@ twin-expect: what=session.state functions=~reset_session,get_state
#include "../lib/crew.h"
#include <stdatomic.h>
#include <string.h>

static struct session {
    char name[120];
    atomic_int state;
    char more[1000];
} session, saved;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Unknown to the compiler, so that it calls the library.
static volatile size_t size = sizeof session;

static void lock(void)
{
#ifndef TWIN
    pthread_mutex_lock(&mutex);
#endif
}

static void unlock(void)
{
#ifndef TWIN
    pthread_mutex_unlock(&mutex);
#endif
}

KEEP static int reset_session(void)
{
    memset(&session, 0, size);
    return session.name[0] + 1;
}

KEEP static int save_session(void)
{
    memcpy(&saved, &session, size);
    return saved.name[0] + 1;
}

KEEP static void set_state(int state)
{
    atomic_store_explicit(&session.state, state, memory_order_relaxed);
}

KEEP static int get_state(void)
{
    return atomic_load_explicit(&session.state, memory_order_relaxed);
}

REPEAT(keeper, lock(); use_value(reset_session() + save_session()); unlock())
REPEAT(user, lock(); set_state((int)i); use_value(get_state()); unlock())

int main(void)
{
    return run_pair(keeper, user);
}
