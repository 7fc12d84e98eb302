// One side is marked, the other one is not.
//@ race: what=stop_requested truth=benign category=volatile
//@ race: what=generation truth=benign category=volatile
//@ race: what=paused truth=benign category=volatile
//@ reason: flags that are polled; their authors knew of the other thread
#include "../lib/crew.h"

static int stop_requested;
static unsigned generation;
static int paused;
static unsigned long rounds;

KEEP static void ask_stop(void) { if (stop_requested) rounds++; }
KEEP static void set_stop(unsigned i) { *(volatile int *)&stop_requested = i & 1; }
KEEP static void ask_generation(void) { rounds += *(volatile unsigned *)&generation; }
KEEP static void set_generation(unsigned i) { generation = i; }
KEEP static void ask_paused(void) { if (__atomic_load_n(&paused, __ATOMIC_RELAXED)) rounds++; }
KEEP static void set_paused(unsigned i) { paused = i & 1; }

REPEAT(asker, ask_stop(); busy(1); ask_generation(); busy(1); ask_paused())
REPEAT(setter, set_stop(i); busy(1); set_generation(i); busy(1); set_paused(i))

int main(void)
{
    return run_pair(asker, setter);
}
