// A bit is tested while the only writer changes another one.
//@ race: what=mode truth=benign category=safe-flag-update
//@ race: what=options truth=benign category=safe-flag-update
//@ race: what=session.state truth=benign category=safe-flag-update
//@ race: what=capabilities truth=benign category=safe-flag-update
//@ reason: the bits are disjoint and there is one writer
#include "../lib/crew.h"
#include <stdint.h>

static uint8_t mode = 0x81;
static uint16_t options = 0x0100;
static struct {
    int id;
    unsigned state;
} session = {1, 0x10};
static uint64_t capabilities = 1ull << 40;
static unsigned seen;

KEEP static void ask_mode(void) { if (mode & 0x80) seen++; }
KEEP static void ask_options(void) { if ((options >> 8) & 1) seen++; }
KEEP static void ask_session(void) { if (!(session.state & 0x10)) seen++; }
KEEP static void ask_capabilities(void) { if (capabilities & (1ull << 40)) seen++; }

KEEP static void set_mode(unsigned i) { if (i & 1) mode |= 2; else mode &= (uint8_t)~2; }
KEEP static void set_options(unsigned i) { options = (uint16_t)((options & ~0xfu) | (i & 0xf)); }
KEEP static void set_session(void) { session.state ^= 0x1; }
KEEP static void set_capabilities(void) { capabilities ^= 4; }

REPEAT(asker, ask_mode(); busy(1); ask_options(); busy(1); ask_session(); busy(1); ask_capabilities())
REPEAT(setter, set_mode(i); busy(1); set_options(i); busy(1); set_session(); busy(1); set_capabilities())

int main(void)
{
    return run_pair(asker, setter);
}
