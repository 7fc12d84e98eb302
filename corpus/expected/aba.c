// The writer changes a value and puts the old one back at once: comparing the
// bytes before and after a window shows nothing.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=selector functions=flicker,read_selector
#include "../lib/crew.h"

int selector = 7;

KEEP static void flicker(void)
{
    selector = 8;
    __asm__ volatile("" ::: "memory");
    selector = 7;
}

KEEP static int read_selector(void)
{
    return selector;
}

static void writer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        flicker();
        busy(4);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(read_selector());
        busy(4);
    }
}

int main(void)
{
    return run_pair(writer, reader);
}
