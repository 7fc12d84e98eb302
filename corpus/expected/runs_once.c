// One side runs once in the life of the process: late initialisation, while
// the other thread already reads the settings.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=settings.limit functions=initialise_late,current_limit
#include "../lib/crew.h"

struct {
    int ready;
    int limit;
} settings;

KEEP static void initialise_late(void)
{
    settings.limit = 100;
}

KEEP static int current_limit(void)
{
    return settings.limit;
}

static void starter(void)
{
    busy(800000);
    initialise_late();
    busy(800000);
}

static void server(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(current_limit());
        busy(4);
    }
}

int main(void)
{
    return run_pair(starter, server);
}
