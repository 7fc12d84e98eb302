// Two one-bit fields in one byte, set by two threads: `or byte [m],1` against
// `or byte [m],2`.
//@ expect: what=connection functions=mark_initialized,queue_for_closing
//@ race: what=connection truth=harmful category=lost-update
#include "../lib/crew.h"

struct connection {
    char peer[28];
    unsigned char initialized : 1;
    unsigned char queued_for_closing : 1;
};

static struct connection connection;

KEEP static void mark_initialized(struct connection *c)
{
    c->initialized = 1;
}

KEEP static void queue_for_closing(struct connection *c)
{
    c->queued_for_closing = 1;
}

static void opener(void)
{
    mark_initialized(&connection);
}

static void closer(void)
{
    queue_for_closing(&connection);
}

CREW_MODULE(opener, closer, "two bits of one byte");
