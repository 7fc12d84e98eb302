// A store of 16 bytes against a load of the same, through an SSE register.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=word functions=store_word,load_word
#include <emmintrin.h>
#define WORD __m128i
#define VALUE(i) _mm_set1_epi32(-(int)(i))
#define WIDTH_TARGET
#include "../lib/width.h"

int main(void)
{
    return run_pair(store_loop, load_loop);
}
