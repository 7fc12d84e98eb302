// A gather reads every 32nd element, and another thread writes one between them.
//@ build: O2
//@ full: O0 O2+clang
//@ focus: gather_sum set_entry
//@ twin-expect: what=table functions=~gather_sum,set_entry
#include "../lib/crew.h"
#include <immintrin.h>

int table[256];

__attribute__((target("avx2"))) KEEP static int gather_sum(const int *from)
{
    const __m256i at = _mm256_setr_epi32(0, 32, 64, 96, 128, 160, 192, 224);
    __m256i eight = _mm256_i32gather_epi32(from, at, 4);
    int all[8];
    _mm256_storeu_si256((__m256i *)all, eight);
    return all[0] + all[3] + all[7];
}

KEEP static void set_entry(int at, int value)
{
    table[at] = value;
}

REPEAT(gatherer, use_value(gather_sum(table)))
#ifdef TWIN
REPEAT(setter, set_entry(96, (int)i))
#else
REPEAT(setter, set_entry(97, (int)i))
#endif

int main(void)
{
    if (!__builtin_cpu_supports("avx2"))
        return 77;
    return run_pair(gatherer, setter);
}
