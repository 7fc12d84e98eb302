// A signal handler and the code that it interrupts share a counter, in one
// thread. In the twin the signal goes to another thread than the counter's.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: take_ticks count_tick
//@ twin-expect: what=ticks functions=take_ticks,count_tick
#include "../lib/crew.h"
#include <signal.h>
#include <unistd.h>

enum { SIGNALS = 400 };

static long ticks;
static int closing;

KEEP static void count_tick(void)
{
    ticks++;
}

KEEP static long take_ticks(void)
{
    long taken = ticks;
    ticks = 0;
    return taken;
}

static void on_signal(int number)
{
    (void)number;
    count_tick();
}

static void *owner(void *unused)
{
    while (!__atomic_load_n(&closing, __ATOMIC_ACQUIRE)) {
        use_value(take_ticks());
        busy(4);
    }
    return unused;
}

static void *bystander(void *unused)
{
    while (!__atomic_load_n(&closing, __ATOMIC_ACQUIRE))
        busy(100);
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t first, second;

    sigemptyset(&action.sa_mask);
    if (sigaction(SIGUSR1, &action, NULL) != 0 || pthread_create(&first, NULL, owner, NULL) != 0 ||
        pthread_create(&second, NULL, bystander, NULL) != 0)
        return 1;
    for (int i = 0; i < SIGNALS; i++) {
#ifndef TWIN
        pthread_kill(first, SIGUSR1);
#else
        pthread_kill(second, SIGUSR1);
#endif
        usleep(100);
    }
    __atomic_store_n(&closing, 1, __ATOMIC_RELEASE);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    return 0;
}
