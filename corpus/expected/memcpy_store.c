// memcpy fills a buffer in the C library while another thread stores into it.
//@ build: O0 O2 O2+static
//@ full: O2+clang
//@ expect: what=buffer functions=~fill_buffer,poke
#include "../lib/crew.h"
#include <string.h>

char buffer[256];
static const char source[256] = "contents";

// Returns something of its own, so that the copy is no tail call that would
// take this function off the stack.
KEEP static size_t fill_buffer(size_t length)
{
    memcpy(buffer, source, length);
    return length + 1;
}

KEEP static void poke(size_t at, char value)
{
    buffer[at] = value;
}

static void filler(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(fill_buffer(sizeof buffer));
        busy(4);
    }
}

static void poker(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        poke(100, (char)i);
        busy(4);
    }
}

int main(void)
{
    return run_pair(filler, poker);
}
