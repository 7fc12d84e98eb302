// A tag and a typedef of one name are two types. The turn is accessed by the typedef, whose member is
// volatile; the structure with that tag is plain, and one thread's own.
//@ build: O2 O2+clang
//@ full: O0 O2+dwarf4
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

struct slot {
    int state;
};

typedef struct {
    volatile int state;
} slot;

static int memory[4];
static void *place = memory;
static __thread struct slot own;

KEEP static int is_turn_of(int who)
{
    own.state++;
    return ((slot *)place)->state == who;
}

KEEP static void hand_to(int who)
{
    __asm__ volatile("" ::: "memory");
    ((struct slot *)&own)->state = who;
    ((slot *)place)->state = who;
}

#include "../lib/turns.h"
