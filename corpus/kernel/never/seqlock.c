// A position that is written under a seqlock and read by those who read again
// when it changed meanwhile. Its reader does meet the writer; it finds out and
// throws away what it read.
//@ focus: move_position read_position
//@ twin-expect: what=position functions=move_position,read_position
#include "../lib/crew.h"
#include <linux/seqlock.h>

static DEFINE_SEQLOCK(position_lock);
static struct {
    long x;
    long y;
} position;

KEEP static void move_position(void)
{
    position.x++;
    position.y--;
}

// The whole of the reader's section is here, as it is in the kernel's own
// functions: the loads lie between the two reads of the sequence.
KEEP static long read_position(void)
{
    long sum;
#ifndef TWIN
    unsigned int sequence;

    do {
        sequence = read_seqbegin(&position_lock);
        sum = position.x + position.y;
    } while (read_seqretry(&position_lock, sequence));
#else
    sum = position.x + position.y;
#endif
    return sum;
}

static void writer(void)
{
#ifndef TWIN
    write_seqlock(&position_lock);
#endif
    move_position();
#ifndef TWIN
    write_sequnlock(&position_lock);
#else
    (void)position_lock;
#endif
    crew_idle(200);
}

static void reader(void)
{
    (void)read_position();
}

CREW_MODULE(writer, reader, "a position under a seqlock");
