// C11 atomics: a relaxed progress counter with one writer, whose load and store
// are plain moves in the binary, and a message that is guarded by a flag with
// acquire and release. In the twin the counter is plain and nobody asks the flag.
//@ build: O0 O2 O2+stripped
//@ full: O2+clang O3
//@ focus: write_message read_message
//@ twin-expect: what=message functions=write_message,read_message
//@ twin-expect: what=progress functions=publish,observe
#include "../lib/crew.h"
#include <stdatomic.h>

#ifndef TWIN
static atomic_long progress;
static atomic_int full;
#else
static long progress;
#endif

static struct {
    long text;
    long length;
} message;

KEEP static void publish(long done)
{
#ifndef TWIN
    atomic_store_explicit(&progress, done, memory_order_relaxed);
#else
    progress = done;
#endif
}

KEEP static long observe(void)
{
#ifndef TWIN
    return atomic_load_explicit(&progress, memory_order_relaxed);
#else
    return progress;
#endif
}

KEEP static void write_message(long text)
{
    message.text = text;
    message.length = 1;
}

KEEP static long read_message(void)
{
    long text = message.text;
    message.length = 0;
    return text;
}

static int is_full(int wanted)
{
#ifndef TWIN
    return atomic_load_explicit(&full, memory_order_acquire) == wanted;
#else
    (void)wanted;
    return 1;
#endif
}

static void set_full(int now)
{
#ifndef TWIN
    atomic_store_explicit(&full, now, memory_order_release);
#else
    (void)now;
#endif
}

static void sender(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        publish(i);
        if (is_full(0)) {
            write_message(i);
            set_full(1);
        }
        busy(4);
    }
}

static void receiver(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(observe());
        if (is_full(1)) {
            use_value(read_message());
            set_full(0);
        }
        busy(4);
    }
}

int main(void)
{
    return run_pair(sender, receiver);
}
