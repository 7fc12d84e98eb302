// A 16-byte value is read and written by one aligned vector move each, in inline assembly, as
// newer versions of libatomic do. Processors with AVX guarantee that it is atomic.
//@ build: O0 O2
//@ full: O2+clang O2+nodebug O2+stripped
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <immintrin.h>

__m128i turn;

KEEP static int is_turn_of(int who)
{
    __m128i seen;
    __asm__ volatile("movdqa %1, %0" : "=x"(seen) : "m"(turn) : "memory");
    return _mm_cvtsi128_si32(seen) == who;
}

KEEP static void hand_to(int who)
{
    __m128i next = _mm_set1_epi32(who);
    if (!__builtin_cpu_supports("avx"))
        exit(77);
    __asm__ volatile("movdqa %1, %0" : "=m"(turn) : "x"(next) : "memory");
}

#include "../lib/turns.h"
