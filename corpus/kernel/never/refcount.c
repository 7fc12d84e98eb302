// An object with a refcount_t: who drops the last reference is alone with it,
// empties it, and opens it again. The twin empties it whenever it likes.
//@ focus: recycle
//@ twin-expect: what=object.recycled functions=recycle,recycle
#include "../lib/crew.h"
#include <linux/refcount.h>

static struct {
    refcount_t references;
    // Whether the reference that the object was opened with still stands.
    unsigned long opened;
    unsigned long recycled;
} object = {.references = REFCOUNT_INIT(1), .opened = 1};

KEEP static void recycle(void)
{
    object.recycled++;
}

#ifndef TWIN
static void put(void)
{
    if (!refcount_dec_and_test(&object.references))
        return;
    recycle();
    // What was done to the object is done before anybody can have it again.
    smp_wmb();
    refcount_set(&object.references, 1);
    set_bit(0, &object.opened);
}
#endif

static void user(void)
{
#ifndef TWIN
    if (!refcount_inc_not_zero(&object.references))
        return;
    crew_idle(10);
    if (test_and_clear_bit(0, &object.opened))
        put();
    put();
#else
    recycle();
#endif
}

CREW_MODULE(user, user, "an object and its last reference");
