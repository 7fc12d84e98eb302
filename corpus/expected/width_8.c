// A store of 8 bytes against a load of the same.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=word functions=store_word,load_word
#include <stdint.h>
#define WORD uint64_t
#define VALUE(i) ((uint64_t)-(i))
#define WIDTH_TARGET
#include "../lib/width.h"

int main(void)
{
    return run_pair(store_loop, load_loop);
}
