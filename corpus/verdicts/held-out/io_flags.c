// One thread tests a bit; another, the only writer, changes a different one.
//@ race: what=request_flags truth=benign category=safe-flag-update
//@ reason: the tested bit is never written after the start, and only one thread writes the word
#include "../../lib/crew.h"

#define WANTS_REPLY 0x01u
#define IN_QUEUE 0x40u

static unsigned request_flags = WANTS_REPLY;
static unsigned replies;

KEEP static void maybe_reply(void)
{
    if (request_flags & WANTS_REPLY)
        replies++;
}

KEEP static void enqueue(unsigned i)
{
    if (i & 1)
        request_flags |= IN_QUEUE;
    else
        request_flags &= ~IN_QUEUE;
}

REPEAT(replier, maybe_reply())
REPEAT(queuer, enqueue(i))

int main(void)
{
    return run_pair(replier, queuer);
}
