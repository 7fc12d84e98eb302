// A function with an "acquire the lock for me" argument: one caller passes
// false without owning the lock, so a guarded store meets an unguarded one.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=device.idle_state functions=change_idle_state,change_idle_state
//@ silent: what=device.transitions
#include "../lib/crew.h"
#include <stdbool.h>

enum idle_state { IDLE_UNKNOWN, IDLE_WORKING, IDLE_SUSPENDED };

static struct device {
    pthread_spinlock_t lock;
    enum idle_state idle_state;
    unsigned transitions;
} device;

KEEP static void change_idle_state(struct device *d, enum idle_state state, bool acquire_lock)
{
    if (acquire_lock)
        pthread_spin_lock(&d->lock);
    d->idle_state = state;
    if (acquire_lock) {
        d->transitions++;
        pthread_spin_unlock(&d->lock);
    }
}

static void power_thread(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        change_idle_state(&device, i & 1 ? IDLE_WORKING : IDLE_SUSPENDED, true);
        busy(4);
    }
}

// Believes that its caller owns the lock; nobody does.
static void plug_thread(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        change_idle_state(&device, IDLE_UNKNOWN, false);
        busy(4);
    }
}

int main(void)
{
    pthread_spin_init(&device.lock, PTHREAD_PROCESS_PRIVATE);
    return run_pair(power_thread, plug_thread);
}
