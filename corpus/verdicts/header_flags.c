// Flags of an item, of which one says how long its header is.
//@ race: what=item.flags truth=benign category=safe-flag-update
//@ race: what=packet.flags truth=harmful category=lost-header
//@ reason: the item's writer leaves the bit of its header alone, and the packet's writer changes it
#include "../lib/crew.h"

enum { LONG_HEADER = 2, SEEN = 0x10 };

static struct {
    unsigned char flags, key;
    unsigned words[8];
} item = {LONG_HEADER, 0, {0}}, packet = {LONG_HEADER, 0, {0}};
static unsigned taken;

KEEP static void take_item(void)
{
    unsigned char flags = item.flags;
    const char *at = (const char *)item.words;
    taken += *(const unsigned *)(at + ((flags & LONG_HEADER) ? 8 : 0));
}
KEEP static void take_packet(void)
{
    unsigned char flags = packet.flags;
    const char *at = (const char *)packet.words;
    taken += *(const unsigned *)(at + ((flags & LONG_HEADER) ? 8 : 0));
}
KEEP static void mark_item(unsigned i)
{
    if (i & 1)
        item.flags |= SEEN;
    else
        item.flags &= (unsigned char)~SEEN;
}
KEEP static void mark_packet(unsigned i)
{
    if (i & 1)
        packet.flags |= LONG_HEADER;
    else
        packet.flags &= (unsigned char)~LONG_HEADER;
}

REPEAT(reader, take_item(); busy(2); take_packet(); busy(2))
REPEAT(writer, mark_item(i); busy(2); mark_packet(i); busy(2))

int main(void)
{
    return run_pair(reader, writer);
}
