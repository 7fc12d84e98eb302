/* A library in two shapes, with the same names at other places in it. */
long shared_by_all;
#if SHAPE == 1
__attribute__((noinline)) static long one_step(long *number) { return *number += 3; }
__attribute__((noinline)) long walk(long *number, int steps) {
    for (int at = 0; at < steps; at++) {
        one_step(number);
        shared_by_all++;
    }
    return *number;
}
#else
static long table[64];
__attribute__((noinline)) long walk(long *number, int steps) {
    for (int at = 0; at < steps; at++) {
        table[at % 64] = *number;
        shared_by_all ^= at;
        *number = table[at % 64] + 5;
    }
    return *number;
}
__attribute__((noinline)) long unused(long *a, long *b) { return *a * *b + table[*a % 64]; }
#endif
