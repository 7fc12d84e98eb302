// Numbers that go up and down.
//@ race: what=object.references truth=harmful category=reference-count
//@ race: what=users truth=harmful category=reference-count
//@ race: what=tokens truth=harmful category=check-then-act
//@ reason: the last one out must be the last, and a token must not be taken twice
#include "../lib/crew.h"

static struct {
    int references;
    int freed;
} object = {1, 0};
static long users;
static int tokens = 50;
static unsigned taken;

KEEP static void get(void) { object.references++; }
KEEP static void put(void)
{
    if (--object.references == 0)
        object.freed = 1;
}
KEEP static void enter(void) { users++; }
KEEP static void leave(void) { users--; }
KEEP static void take_token(void)
{
    if (tokens > 0) {
        tokens--;
        taken++;
    }
}
KEEP static void return_token(void) { tokens++; }

REPEAT(holder, get(); busy(1); put(); busy(1); enter(); busy(1); leave(); take_token(); busy(1); return_token())

int main(void)
{
    return run_pair(holder, holder);
}
