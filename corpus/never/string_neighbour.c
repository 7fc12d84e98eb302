// strlen and strcmp read whole words or vectors. The bytes behind the string are in them, and
// another thread writes those. In the twin it writes into the string.
//@ build: O2 O2+static O2+static+stripped
//@ focus: change measure
//@ twin-expect: what=shared functions=change,~measure
#include "../lib/crew.h"
#include <string.h>

static struct {
    char text[12];
    char neighbour[20];
} shared __attribute__((aligned(64))) = {"a string", ""};

KEEP static void change(unsigned round)
{
#ifdef TWIN
    shared.text[3] = (char)('a' + round % 2);
#else
    shared.neighbour[5] = (char)(1 + round % 2);
#endif
}

KEEP static size_t measure(void)
{
    return strlen(shared.text) + (size_t)strcmp(shared.text, "a string of another length");
}

static void writer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        change(i);
        busy(2);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (measure() == 0)
            exit(1);
        busy(2);
    }
}

int main(void)
{
    return run_pair(writer, reader);
}
