// A masked vector store leaves out the element that the other thread writes.
//@ build: O2
//@ full: O0 O2+clang
//@ focus: store_some set_entry
//@ twin-expect: what=table functions=~store_some,set_entry
#include "../lib/crew.h"
#include <immintrin.h>

int table[8];

__attribute__((target("avx2"))) KEEP static void store_some(int *to, int value)
{
    const __m256i mask = _mm256_setr_epi32(-1, 0, 0, -1, 0, 0, 0, -1);
    _mm256_maskstore_epi32(to, mask, _mm256_set1_epi32(value));
}

KEEP static void set_entry(unsigned at, int value)
{
    table[at] = value;
}

REPEAT(storer, store_some(table, (int)i))
#ifdef TWIN
REPEAT(setter, set_entry(3, (int)i))
#else
REPEAT(setter, set_entry(4, (int)i))
#endif

int main(void)
{
    if (!__builtin_cpu_supports("avx2"))
        return 77;
    return run_pair(storer, setter);
}
