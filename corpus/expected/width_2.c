// A store of 2 bytes against a load of the same.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=word functions=store_word,load_word
#include <stdint.h>
#define WORD uint16_t
#define VALUE(i) ((uint16_t)-(i))
#define WIDTH_TARGET
#include "../lib/width.h"

int main(void)
{
    return run_pair(store_loop, load_loop);
}
