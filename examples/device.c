// Two threads, two flags, one byte. No flag is shared, but both live in the
// same byte, and a store to one writes the other back.
#include <pthread.h>

struct device { unsigned busy : 1, need_callback : 1, state : 3; };
static struct device device;

__attribute__((noinline)) static void set_busy(struct device *d, int on)
{
    d->busy = on;
}
__attribute__((noinline)) static void request_callback(struct device *d, int on)
{
    d->need_callback = on;
}

static void *work(void *unused)
{
    for (int i = 0; i < 20000000; i++)
        set_busy(&device, i & 1);
    return unused;
}
static void *poll(void *unused)
{
    for (int i = 0; i < 20000000; i++)
        request_callback(&device, i & 1);
    return unused;
}

int main(void)
{
    pthread_t worker, poller;
    pthread_create(&worker, NULL, work, NULL);
    pthread_create(&poller, NULL, poll, NULL);
    pthread_join(worker, NULL);
    pthread_join(poller, NULL);
}
