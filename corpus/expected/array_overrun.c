// A loop that runs one element too far writes the neighbour of its array, which
// belongs to another thread.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=board.total functions=record,publish_total
#include "../lib/crew.h"

static struct {
    int samples[8];
    int total;
    int spare;
} board;

KEEP static void record(int *samples, unsigned count, int value)
{
    for (unsigned i = 0; i <= count; i++) // meant: i < count
        samples[i] = value;
}

KEEP static int publish_total(int more)
{
    board.total += more;
    return board.total;
}

static void recorder(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        record(board.samples, 8, (int)i);
        busy(4);
    }
}

static void publisher(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(publish_total(1));
        busy(4);
    }
}

int main(void)
{
    return run_pair(recorder, publisher);
}
