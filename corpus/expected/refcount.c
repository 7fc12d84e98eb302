// A reference count that is decremented, read again and tested: two threads
// can both read zero, or neither. Reclaiming only marks the object, so that a
// second reclaim is harmless here.
//@ build: O0 O2 O2+stripped+nopie
//@ full: O2+clang
//@ expect: what=foo.references functions=release,release
#include "../lib/crew.h"

struct object {
    int references;
    char payload[24];
};

static struct object foo = {2, "payload"};
static __thread unsigned reclaimed;

KEEP static void acquire(struct object *o)
{
    o->references++;
}

KEEP static void reclaim(struct object *o)
{
    (void)o;
    reclaimed++;
}

KEEP static void release(struct object *o)
{
    o->references--;
    __asm__ volatile("" ::: "memory");
    if (o->references == 0)
        reclaim(o);
}

static void user(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        acquire(&foo);
        busy(3);
        release(&foo);
        busy(3);
    }
}

int main(void)
{
    return run_pair(user, user);
}
