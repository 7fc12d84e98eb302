// Bits are counted a word at a time, with the constants of a string function. A program without
// symbols does not show that it is none.
//@ build: O2 O2+stripped
//@ full: O0 O2+nodebug O2+clang
//@ expect: what=words functions=count_bits,put
#include "../lib/crew.h"

static unsigned long words[64];

KEEP static unsigned long count_bits(void)
{
    unsigned long count = 0;
    for (int i = 0; i < 64; i++) {
        unsigned long x = words[i];
        x = x - ((x >> 1) & 0x5555555555555555ul);
        x = (x & 0x3333333333333333ul) + ((x >> 2) & 0x3333333333333333ul);
        x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0ful;
        count += (x * 0x0101010101010101ul) >> 56;
    }
    return count;
}

KEEP static void put(unsigned i)
{
    words[i % 64]++;
}

static void counter(void)
{
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        use_value(count_bits());
        busy(4);
    }
}

REPEAT(writer, put(i))

int main(void)
{
    return run_pair(counter, writer);
}
