// A masked vector store writes three of eight elements; another thread reads one of these.
//@ build: O2
//@ full: O0 O2+clang
//@ expect: what=table functions=~store_some,look
#include "../lib/crew.h"
#include <immintrin.h>

static int table[8];

__attribute__((target("avx2"))) KEEP static void store_some(int *to, int value)
{
    const __m256i mask = _mm256_setr_epi32(-1, 0, 0, -1, 0, 0, 0, -1);
    _mm256_maskstore_epi32(to, mask, _mm256_set1_epi32(value));
}

KEEP static int look(unsigned at)
{
    return table[at];
}

REPEAT(storer, store_some(table, (int)i))
REPEAT(looker, use_value(look(3)))

int main(void)
{
    if (!__builtin_cpu_supports("avx2"))
        return 77;
    return run_pair(storer, looker);
}
