// References counted by hand with a plain integer: two owners take and drop
// them at the same time, and a count is lost. What would be freed at zero is
// only marked, so that the module survives its own bug.
//@ expect: what=session.references functions=get_session,put_session
//@ race: what=session.references truth=harmful category=reference-count
#include "../lib/crew.h"

static struct {
    char name[16];
    int references;
    bool would_be_freed;
} session = {.name = "session", .references = 1};

KEEP static void get_session(void)
{
    session.references++;
}

KEEP static void put_session(void)
{
    if (--session.references == 0)
        session.would_be_freed = true;
}

static void owner(void)
{
    get_session();
    crew_idle(20);
    put_session();
}

CREW_MODULE(owner, owner, "a reference count made by hand");
