// scenario_bomb N: a scenario whose program has N empty arguments, a byte each, packed 150 times smaller still.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t bits;
static int count;
static uint32_t low = 1, high;

// The sum at the end.
static void add(unsigned value) {
    low = (low + value) % 65521;
    high = (high + low) % 65521;
}

static void put(unsigned value, int length) {
    bits |= (uint64_t)value << count;
    for (count += length; count >= 8; count -= 8, bits >>= 8) putchar(bits & 0xff);
}

// Huffman codes begin with their highest bit.
static void code(unsigned value, int length) {
    while (length--) put(value >> length & 1, 1);
}

// A byte by the fixed code of RFC 1951.
static void byte(unsigned value) {
    add(value);
    if (value < 144) code(0x30 + value, 8);
    else code(0x190 + value - 144, 9);
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    uint64_t arguments = strtoull(argv[1], 0, 10), left = arguments;
    fputs("redhanded-scenario/1\n", stdout);
    putchar(0x78);
    putchar(0x9c);
    put(1, 1);
    put(1, 2);
    byte(0); // the race's number
    byte(0); // what is raced on
    while (left >= 128) {
        byte((left & 0x7f) | 0x80);
        left >>= 7;
    }
    byte(left);
    byte(0);
    // The byte before, 258 times.
    for (uint64_t i = 0; i < arguments / 258; i++) {
        code(0xc5, 8);
        code(0, 5);
        for (int n = 0; n < 258; n++) add(0);
    }
    code(0, 7);
    put(0, 7);
    uint32_t sum = high << 16 | low;
    for (int at = 24; at >= 0; at -= 8) putchar(sum >> at & 0xff);
    return 0;
}
