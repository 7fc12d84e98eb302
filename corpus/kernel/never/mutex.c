// A balance guarded by a mutex.
//@ focus: guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <linux/mutex.h>

static DEFINE_MUTEX(lock);
static long balance;

KEEP static void guarded_bump(void)
{
    balance++;
}

static void worker(void)
{
#ifndef TWIN
    mutex_lock(&lock);
#endif
    guarded_bump();
#ifndef TWIN
    mutex_unlock(&lock);
#else
    (void)lock;
#endif
}

CREW_MODULE(worker, worker, "a balance under a mutex");
