// Reference counts whose last one is found in another function than the race.
//@ race: what=object.references truth=harmful category=reference-count
//@ race: what=pages.pins truth=harmful category=reference-count
//@ reason: whoever copies a count without the lock can take a reference to what is just being freed
#include "../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int references;
    int freed;
} object = {1, 0};
static struct {
    long pins;
    int idle;
} pages = {1, 0};
static int copied;
static long copied_pins;

KEEP static int put(void)
{
    pthread_mutex_lock(&lock);
    int left = --object.references;
    pthread_mutex_unlock(&lock);
    return left;
}
KEEP static void get(void)
{
    pthread_mutex_lock(&lock);
    object.references++;
    pthread_mutex_unlock(&lock);
}
KEEP static void drop(void)
{
    if (put() == 0)
        object.freed = 1;
}
KEEP static void look(void) { copied = object.references; }

KEEP static void pin(void)
{
    pthread_mutex_lock(&lock);
    pages.pins++;
    pthread_mutex_unlock(&lock);
}
KEEP static void unpin(void)
{
    pthread_mutex_lock(&lock);
    if (--pages.pins == 0)
        pages.idle++;
    pthread_mutex_unlock(&lock);
}
KEEP static void look_at_pins(void) { copied_pins = pages.pins; }

REPEAT(holder, get(); busy(1); drop(); busy(1); pin(); busy(1); unpin())
REPEAT(looker, look(); busy(2); look_at_pins(); busy(2))

int main(void)
{
    return run_pair(holder, looker);
}
