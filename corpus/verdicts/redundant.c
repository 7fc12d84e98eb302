// Writes of what is there already.
//@ race: what=was_used truth=benign category=redundant-write
//@ race: what=page_size truth=benign category=redundant-write
//@ reason: every write stores the same constant, and nothing else is ever there
#include "../lib/crew.h"

static int was_used = 1;
static long page_size = 4096;
static unsigned long sum;

KEEP static void mark_used(void) { was_used = 1; }
KEEP static void learn_size(void) { page_size = 4096; }
KEEP static void ask_used(void) { if (was_used) sum++; }
KEEP static void ask_size(void) { if (page_size == 4096) sum++; }

REPEAT(writer, mark_used(); busy(1); learn_size())
REPEAT(reader, ask_used(); busy(1); ask_size())

int main(void)
{
    return run_pair(writer, reader);
}
