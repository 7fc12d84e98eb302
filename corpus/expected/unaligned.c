// Fields of a packed structure that straddle eight bytes, and a cache line.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=record.length functions=set_length,get_length
//@ expect: what=record.serial functions=set_serial,get_serial
#include "../lib/crew.h"
#include <stdint.h>

struct __attribute__((packed, aligned(64))) {
    char tag[5];
    uint32_t length;
    char text[50];
    uint64_t serial;
} record;

KEEP static void set_length(uint32_t length)
{
    record.length = length;
}

KEEP static uint32_t get_length(void)
{
    return record.length;
}

KEEP static void set_serial(uint64_t serial)
{
    record.serial = serial;
}

KEEP static uint64_t get_serial(void)
{
    return record.serial;
}

static void writer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        set_length(-(i & 1));
        busy(2);
        set_serial(-(uint64_t)(i & 1));
        busy(2);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(get_length());
        busy(2);
        use_value(get_serial());
        busy(2);
    }
}

int main(void)
{
    return run_pair(writer, reader);
}
