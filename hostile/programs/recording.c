// recording KIND [ARGUMENT…]: writes a recording to standard output, as a recorded program could have made it.
//   accesses N    N writes of a megabyte each by two threads, all in other places
//   locks N       a thread takes N locks and gives none of them back
//   starts N      N threads, one after the other, that nobody created
//   sites N       two threads write one word from N places each
//   packed N      N megabytes of entries that are alike, packed as tightly as zstd can
//   spin FILE DATA SITE SITE [PADDING]
//                 two threads write to DATA from the two sites, in the program FILE; with so many megabytes before it
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { READ = 1, WRITE, NUMBER = 16, VALUE, CALL = 19, RETURN, START = 24, EXIT };
enum { HELLO = 1, ENTRIES, SITES, CONTEXTS, MODULE, GOODBYE = 8, HEADER = 0x80, ENDING };
enum { PIECE = 128 << 10, MUTEX_LOCK = 1 };

static uint32_t sums[256];

static uint32_t sum(uint32_t so_far, const void *bytes, size_t length) {
    const uint8_t *at = bytes;
    so_far = ~so_far;
    while (length--) so_far = so_far >> 8 ^ sums[(so_far ^ *at++) & 0xff];
    return ~so_far;
}

// A block that is packed already.
static void packed(uint32_t kind, uint32_t thread, uint32_t unpacked, const void *bytes, uint32_t length) {
    uint32_t fields[] = {kind, 0, thread, unpacked, length};
    uint32_t checked = sum(sum(0, fields, sizeof fields), bytes, length);
    fwrite("RHBK", 1, 4, stdout);
    fwrite(&checked, 1, 4, stdout);
    fwrite(fields, 1, sizeof fields, stdout);
    fwrite(bytes, 1, length, stdout);
}

// A block of a zstd frame with raw blocks: not packed at all.
static void block(uint32_t kind, uint32_t thread, const void *bytes, uint32_t length) {
    static uint8_t frame[(4 << 20) + 4096];
    uint8_t *to = frame;
    uint32_t magic = 0xfd2fb528, left = length;
    memcpy(to, &magic, 4);
    to[4] = 0xa0; // the length follows, in four bytes, and there is no window
    memcpy(to + 5, &length, 4);
    to += 9;
    do {
        uint32_t part = left < PIECE ? left : PIECE, header = part << 3 | (part == left);
        memcpy(to, &header, 3);
        memcpy(to + 3, bytes, part);
        to += 3 + part;
        bytes = (const char *)bytes + part;
        left -= part;
    } while (left);
    packed(kind, thread, length, frame, to - frame);
}

static void text(uint32_t kind, const char *text) { block(kind, 0, text, strlen(text)); }

static uint64_t pending[PIECE / 8];
static size_t count;
static uint32_t current;

static void flush(void) {
    if (count) block(ENTRIES, current, pending, count * 8);
    count = 0;
}

static void entry(uint64_t kind, uint64_t size, uint64_t address, uint64_t word) {
    if (count == PIECE / 8) flush();
    pending[count++] = kind << 56 | size << 48 | (address & 0xffffffffffff);
    pending[count++] = word;
}

static void numbered(uint64_t number, uint64_t kind, uint64_t address, uint64_t word) {
    entry(NUMBER, 0, 0, number);
    entry(kind, 0, address, word);
}

static void begin(uint32_t thread, uint64_t number) {
    flush();
    current = thread;
    numbered(number, START, 0, 0);
    entry(VALUE, 0, 0, 0x1000 * number);
    entry(VALUE, 1, 0, 0x7f0000000000 + number * 0x1000000);
}

static void end(uint64_t number) {
    numbered(number, EXIT, 0, 0);
    flush();
}

int main(int argc, char **argv) {
    char note[8192];
    if (argc < 3) return 1;
    long number = atol(argv[2]);
    for (int i = 0; i < 256; i++) {
        sums[i] = i;
        for (int bit = 0; bit < 8; bit++) sums[i] = sums[i] >> 1 ^ (sums[i] & 1 ? 0xedb88320 : 0);
    }
    fwrite("redhanded-rec/1\n", 1, 16, stdout);
    snprintf(note, sizeof note, "{\"tool\":\"x\",\"program\":\"/bin/x\",\"arguments\":[],\"folder\":\"/\",\"started\":%ld}",
             (long)time(0));
    text(HEADER, note);
    text(HELLO, "{\"version\":1,\"process\":1,\"parent\":0,\"program\":\"/bin/x\"}");
    uint64_t sites[] = {1, 0x401000, 2, 0x401010};
    if (!strcmp(argv[1], "spin") && argc > 5) {
        sites[1] = strtoull(argv[4], 0, 16);
        sites[3] = strtoull(argv[5], 0, 16);
        uint64_t data = strtoull(argv[3], 0, 16), page = sites[1] & ~0xfffUL;
        for (long i = argc > 6 ? atol(argv[6]) : 0; i > 0; i--) {
            static uint64_t contexts[1 << 17];
            for (int at = 0; at < 1 << 16; at++) contexts[2 * at] = i << 16 | at, contexts[2 * at + 1] = rand();
            block(CONTEXTS, 0, contexts, sizeof contexts);
        }
        snprintf(note, sizeof note,
                 "{\"path\":\"%s\",\"start\":%lu,\"end\":%lu,\"offset\":0,\"parts\":["
                 "{\"start\":%lu,\"end\":%lu,\"offset\":4096,\"executable\":true}]}",
                 argv[2], page - 0x1000, page + 0x10000, page, page + 0x1000);
        text(MODULE, note);
        block(SITES, 0, sites, sizeof sites);
        for (int thread = 1; thread < 3; thread++) {
            begin(thread, thread);
            entry(WRITE, 8, data, thread);
            end(10 + thread);
        }
    } else if (!strcmp(argv[1], "accesses")) {
        block(SITES, 0, sites, sizeof sites);
        for (int thread = 1; thread < 3; thread++) {
            begin(thread, thread);
            for (long i = 0; i < number; i++) {
                entry(WRITE, 0, 0x10000000 + ((uint64_t)i << 20), thread);
                entry(VALUE, 0, 0, 1 << 20);
            }
            end(10 + thread);
        }
    } else if (!strcmp(argv[1], "locks")) {
        block(SITES, 0, sites, sizeof sites);
        begin(1, 1);
        for (long i = 0; i < number; i++) {
            numbered(10 + 2 * i, CALL, MUTEX_LOCK, 1);
            entry(VALUE, 0, 0, 0x100000 + 64 * i);
            numbered(11 + 2 * i, RETURN, MUTEX_LOCK, 1);
            entry(VALUE, 0, 0, 0);
        }
        end(20 + 2 * number);
        begin(2, 2);
        end(21 + 2 * number);
    } else if (!strcmp(argv[1], "starts")) {
        for (long i = 0; i < number; i++) {
            numbered(i + 1, START, 0, 0);
            current = 1;
        }
        end(number + 1);
        begin(2, number + 2);
        end(number + 3);
    } else if (!strcmp(argv[1], "sites")) {
        for (int thread = 1; thread < 3; thread++) {
            begin(thread, thread);
            for (long i = 0; i < number; i++) entry(WRITE, 8, 0x10000000, thread * number + i);
            end(10 + thread);
        }
    } else if (!strcmp(argv[1], "packed")) {
        // A frame with a single block, which is one byte again and again: reads of 1 byte at one address.
        uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 2, 0, 3, 0, 0x10, 1};
        for (int thread = 1; thread < 3; thread++) {
            begin(thread, thread);
            flush();
            for (long i = 0; i < 8 * number; i++) packed(ENTRIES, thread, PIECE, frame, sizeof frame);
            end(10 + thread);
        }
    } else {
        return 1;
    }
    block(GOODBYE, 0, "", 0);
    text(ENDING, "{\"status\":0,\"milliseconds\":1}");
    return 0;
}
