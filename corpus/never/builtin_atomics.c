// The same with the compiler's builtins on variables of plain type: nothing but
// the source line says that the moves are atomic.
//@ build: O0 O2 O2+stripped
//@ full: O2+clang O3
//@ focus: write_message read_message
//@ twin-expect: what=message functions=write_message,read_message
//@ twin-expect: what=progress functions=publish,observe
#include "../lib/crew.h"

static long progress;
#ifndef TWIN
static int full;
#endif

static struct {
    long text;
    long length;
} message;

KEEP static void publish(long done)
{
#ifndef TWIN
    __atomic_store_n(&progress, done, __ATOMIC_RELAXED);
#else
    progress = done;
#endif
}

KEEP static long observe(void)
{
#ifndef TWIN
    return __atomic_load_n(&progress, __ATOMIC_RELAXED);
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
    return __atomic_load_n(&full, __ATOMIC_ACQUIRE) == wanted;
#else
    (void)wanted;
    return 1;
#endif
}

static void set_full(int now)
{
#ifndef TWIN
    __atomic_store_n(&full, now, __ATOMIC_RELEASE);
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
