// Loads and stores in inline assembly behind a macro, as in libraries that are older than
// the builtins. An aligned `mov` is atomic on this processor and has the order needed.
//@ build: O0 O2
//@ full: O2+clang O2+g3 O3
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

#define LOAD(place, into) __asm__ volatile("movl %1, %0" : "=r"(into) : "m"(place) : "memory")
#define STORE(place, from) __asm__ volatile("movl %1, %0" : "=m"(place) : "r"(from) : "memory")

static int turn;

KEEP static int is_turn_of(int who)
{
    int seen;
    LOAD(turn, seen);
    return seen == who;
}

KEEP static void hand_to(int who)
{
    STORE(turn, who);
}

#include "../lib/turns.h"
