// One function reads a word twice, or two callers use what it gives: one of them takes a bit
// that the writer leaves alone, and the other one the bit that it changes.
//@ race: what=state truth=harmful category=steers-access
//@ race: what=setting truth=harmful category=steers-access
//@ race: what=options truth=benign category=safe-flag-update
//@ reason: what is safe in one place does not make the other place safe
#include "../lib/crew.h"

static unsigned state = 1, setting = 1, options = 3;
// Not static: a compiler knows what is in an array that nobody writes.
unsigned table[64];
static unsigned long seen;

// What is safe is rarer, so that a short run sees the other one as well.
KEEP static void look(unsigned i)
{
    if (i % 4 == 0 && state & 1)
        seen++;
    busy(2);
    seen += table[state & 0x10];
}
KEEP static unsigned get_setting(void) { return setting; }
KEEP static void ask_setting(void) { if (get_setting() & 1) seen++; }
KEEP static void pick_by_setting(void) { seen += table[get_setting() & 0x10]; }
KEEP static void ask_options(void)
{
    if (options & 1)
        seen++;
    busy(2);
    if (options & 2)
        seen++;
}

KEEP static void change_state(void) { state ^= 0x10; }
KEEP static void change_setting(void) { setting ^= 0x10; }
KEEP static void change_options(void) { options ^= 0x10; }

// Ends a region of a replay, so that one race makes no difference to another.
#define PART busy(2); __sync_synchronize(); busy(2)

REPEAT(reader, look(i); PART; if (i % 4 == 0) ask_setting(); busy(1); pick_by_setting(); PART; ask_options(); PART)
REPEAT(writer, change_state(); PART; change_setting(); PART; change_options(); PART)

int main(void)
{
    return run_pair(reader, writer);
}
