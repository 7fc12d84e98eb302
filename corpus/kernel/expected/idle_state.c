// A function with an "acquire the lock for me" argument: one caller passes
// false without owning the lock, so a guarded store meets an unguarded one.
//@ expect: what=device.idle_state functions=change_idle_state,change_idle_state
//@ silent: what=device.transitions
//@ race: what=device.idle_state truth=harmful category=missing-lock
#include "../lib/crew.h"
#include <linux/spinlock.h>

enum idle_state { IDLE_UNKNOWN, IDLE_WORKING, IDLE_SUSPENDED };

static struct {
    spinlock_t lock;
    enum idle_state idle_state;
    unsigned int transitions;
} device = {.lock = __SPIN_LOCK_UNLOCKED(device.lock)};

KEEP static void change_idle_state(enum idle_state state, bool acquire_lock)
{
    if (acquire_lock)
        spin_lock(&device.lock);
    device.idle_state = state;
    if (acquire_lock) {
        device.transitions++;
        spin_unlock(&device.lock);
    }
}

static void power_thread(void)
{
    change_idle_state(IDLE_WORKING, true);
}

static void removal_thread(void)
{
    change_idle_state(IDLE_SUSPENDED, false);
}

CREW_MODULE(power_thread, removal_thread, "a lock that one caller forgot");
