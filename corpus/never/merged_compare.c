// Two compares of neighbouring bytes become one of a 16-bit word. The first is false and never
// changes, so that the source never reads the second, which another thread writes. clang reads
// both by themselves, whatever the first says.
//@ build: O0 O2
//@ full: O3 Os O2+clang O2+nodebug O2+stripped
//@ focus: is_ready set_ready
//@ allow: possibly-atomic in *+clang
//@ twin-expect: what=device.ready functions=is_ready,set_ready
#include "../lib/crew.h"

struct {
    unsigned char present, ready;
} device;

KEEP static int is_ready(void)
{
    return device.present == 1 && device.ready == 2;
}

KEEP static void set_ready(unsigned char to)
{
    device.ready = to;
}

REPEAT(asker, use_value(is_ready()))
REPEAT(setter, set_ready((unsigned char)(i & 3)))

int main(void)
{
#ifdef TWIN
    device.present = 1;
#endif
    return run_pair(asker, setter);
}
