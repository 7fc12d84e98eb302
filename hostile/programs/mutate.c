// mutate FROM TO SEED: copies a file with a few bytes changed, mostly in its headers and tables.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t next(void) {
    state += 0x9e3779b97f4a7c15;
    uint64_t value = state;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

int main(int argc, char **argv) {
    static unsigned char bytes[1 << 20];
    static const uint64_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, -1};
    if (argc < 4) return 1;
    FILE *from = fopen(argv[1], "r"), *to = fopen(argv[2], "w");
    if (!from || !to) return 1;
    size_t size = fread(bytes, 1, sizeof bytes - 8, from);
    state = strtoull(argv[3], 0, 10);
    for (int count = 1 + next() % 8; count > 0; count--) {
        // The headers are at the front, section headers and debug information at the end.
        size_t half = next() % 3, at = half == 0 ? next() % 1024 : half == 1 ? size - 1 - next() % 4096 : next() % size;
        uint64_t value = next() % 2 ? next() : edges[next() % (sizeof edges / sizeof *edges)];
        memcpy(bytes + at, &value, (size_t)1 << next() % 4);
    }
    if (next() % 16 == 0) size = next() % size;
    return fwrite(bytes, 1, size, to) != size || fclose(to);
}
