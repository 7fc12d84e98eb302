// Counters of objects and classes.
//@ race: what=lookups truth=benign category=statistics-counter
//@ race: what=meter truth=benign category=statistics-counter
//@ reason: numbers for a status page
#include "../lib/crew.h"

struct Cache {
    static unsigned long lookups;
    KEEP void find() { lookups++; }
};
unsigned long Cache::lookups;

struct Meter {
    const char *name;
    long long total;
    KEEP void add(int amount) { total += amount; }
};
static Meter meter{"meter", 0};

static void worker()
{
    Cache cache;
    for (unsigned i = 0; i < ROUNDS; i++) {
        cache.find();
        busy(2);
        meter.add(1 + (i & 7));
        busy(2);
    }
}

int main()
{
    return run_pair(worker, worker);
}
