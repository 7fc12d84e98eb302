// Two one-bit fields in one byte, set by two threads: `or byte [m],1` against
// `or byte [m],2`.
//@ build: O0 O2 O2+nopie
//@ full: O2+clang
//@ expect: what=connection functions=mark_initialized,queue_for_closing
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
    for (unsigned i = 0; i < ROUNDS; i++) {
        mark_initialized(&connection);
        busy(4);
    }
}

static void closer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        queue_for_closing(&connection);
        busy(4);
    }
}

int main(void)
{
    return run_pair(opener, closer);
}
