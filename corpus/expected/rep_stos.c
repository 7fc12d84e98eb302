// A buffer cleared by `rep stosq` against a load of one of its words.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=words functions=clear_words,load_word
#include "../lib/crew.h"
#include <stdint.h>

uint64_t words[16];

KEEP static void clear_words(uint64_t *to, size_t count, uint64_t value)
{
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(value) : "memory");
}

KEEP static uint64_t load_word(size_t at)
{
    return words[at];
}

static void cleaner(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        clear_words(words, 16, i & 1);
        busy(4);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(load_word(11));
        busy(4);
    }
}

int main(void)
{
    return run_pair(cleaner, reader);
}
