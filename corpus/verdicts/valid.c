// Either value will do.
//@ race: what=log_level truth=benign category=both-values-valid
//@ race: what=preferred truth=benign category=both-values-valid
//@ race: what=is_slow truth=benign category=both-values-valid
//@ reason: a decision that comes a little late is as good
//@ annotate: variable=log_level benign="a message more or less does not matter"
//@ annotate: variable=preferred benign="both backends give the same answer"
//@ annotate: function=pick_path benign="both paths give the same result"
#include "../lib/crew.h"

static int log_level = 2;
static unsigned preferred;
static int is_slow;
static unsigned long lines, sum;

KEEP static void log_line(int level) { if (level <= log_level) lines++; }
KEEP static void ask_backend(void) { sum += preferred ? 1 : 1; }
KEEP static void pick_path(unsigned i) { sum += is_slow ? i + i : i * 2; }
KEEP static void set_level(unsigned i) { log_level = (int)(i & 3); }
KEEP static void prefer(unsigned i) { preferred = i & 1; }
KEEP static void measure(unsigned i) { is_slow = (i >> 2) & 1; }

REPEAT(worker, log_line((int)(i & 3)); busy(1); ask_backend(); busy(1); pick_path(i))
REPEAT(tuner, set_level(i); busy(1); prefer(i); busy(1); measure(i))

int main(void)
{
    return run_pair(worker, tuner);
}
