// A vector gather reads a table that another thread writes. Where the processor has no
// gathers, single reads do the same. The intrinsic is a function of its own, inlined.
//@ build: O2
//@ expect: what=table functions=~look_up,change
#include "../lib/crew.h"
#include <immintrin.h>

static int table[64] __attribute__((aligned(64)));
static int has_gathers;

__attribute__((target("avx2"))) static int gathered(void)
{
    __m256i indices = _mm256_set_epi32(3, 9, 17, 22, 33, 41, 50, 60);
    __m256i found = _mm256_i32gather_epi32(table, indices, 4);
    return _mm256_extract_epi32(found, 0) + _mm256_extract_epi32(found, 5);
}

KEEP __attribute__((target("avx2"))) static int look_up(void)
{
    return has_gathers ? gathered() : table[17] + table[50];
}

KEEP static void change(int value)
{
    table[17] = value;
    table[50] = value;
}

static void reader(void)
{
    int sum = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        sum += look_up();
        busy(2);
    }
    __asm__ volatile("" ::"r"(sum));
}

static void writer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        change((int)i);
        busy(2);
    }
}

int main(void)
{
    has_gathers = __builtin_cpu_supports("avx2");
    return run_pair(reader, writer);
}
