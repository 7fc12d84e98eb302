// A store of 32 bytes against a load of the same, through an AVX register.
// Ends with status 77 (not applicable) on a processor without AVX2.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=word functions=store_word,load_word
#include <immintrin.h>
#define WORD __m256i
#define VALUE(i) _mm256_set1_epi32(-(int)(i))
#define WIDTH_TARGET __attribute__((target("avx2")))
#include "../lib/width.h"

int main(void)
{
    if (!__builtin_cpu_supports("avx2"))
        return 77;
    return run_pair(store_loop, load_loop);
}
