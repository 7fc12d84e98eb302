// A store of 1 byte against a load of the same.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=word functions=store_word,load_word
#include <stdint.h>
#define WORD uint8_t
#define VALUE(i) ((uint8_t)-(i))
#define WIDTH_TARGET
#include "../lib/width.h"

int main(void)
{
    return run_pair(store_loop, load_loop);
}
