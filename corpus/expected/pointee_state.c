// A state on the heap: its values have names, and its block a size.
//@ build: O0 O2 O2+debugfile
//@ full: O2+clang O2+dwarf4
//@ expect: what=* pointee=job.state typed=IDLE,BUSY,DONE block=40 region=heap functions=start,finish
#include "../lib/crew.h"

enum state { IDLE, BUSY = 7, DONE };

struct job {
    struct job *next;
    long number;
    enum state state;
    char name[20];
};

static struct job *job;

KEEP static void start(struct job *it)
{
    it->state = BUSY;
}

KEEP static void finish(struct job *it)
{
    it->state = DONE;
}

REPEAT(starter, start(job))
REPEAT(finisher, finish(job))

int main(void)
{
    job = calloc(1, sizeof *job);
    return run_pair(starter, finisher);
}
