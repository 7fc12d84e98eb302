// Accesses of different size and offset that share some bytes: a store of a
// whole word against a load of one byte in it, and a two-byte store against a
// four-byte load that begins one byte later.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=frame functions=store_frame,load_kind
//@ expect: what=packet functions=store_port,load_address
#include "../lib/crew.h"
#include <stdint.h>
#include <string.h>

static union {
    uint64_t whole;
    uint8_t byte[8];
} frame;

static uint8_t packet[16] __attribute__((aligned(16)));

static uint8_t sink_kind;
static uint32_t sink_address;

KEEP static void store_frame(uint64_t value)
{
    frame.whole = value;
}

KEEP static uint8_t load_kind(void)
{
    return frame.byte[5];
}

KEEP static void store_port(uint16_t port)
{
    memcpy(&packet[3], &port, sizeof port);
}

KEEP static uint32_t load_address(void)
{
    uint32_t address;
    memcpy(&address, &packet[4], sizeof address);
    return address;
}

static void sender(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        store_frame(i & 1 ? ~0ull : 0);
        busy(2);
        store_port(i & 1 ? 0xffff : 0);
        busy(2);
    }
}

static void receiver(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        sink_kind += load_kind();
        busy(2);
        sink_address += load_address();
        busy(2);
    }
}

int main(void)
{
    return run_pair(sender, receiver);
}
