// A balance guarded by a spinlock.
//@ focus: guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <linux/spinlock.h>

static DEFINE_SPINLOCK(lock);
static long balance;

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
#ifndef TWIN
    spin_lock(&lock);
#endif
    guarded_bump();
#ifndef TWIN
    spin_unlock(&lock);
#else
    (void)lock;
#endif
}

CREW_MODULE(worker, worker, "a balance under a spinlock");
