// An _Atomic object reached by pointer arithmetic: `*(turns + i)`.
// DWARF 4 omits _Atomic, and a sum of pointers has no declaration to look at: the type is
// unknown there, which is no race, but not nothing either.
//@ allow: possibly-atomic in *+dwarf4
//@ build: O0 O2 O2+dwarf4
//@ full: O2+clang O2+clang+dwarf4 O3+clang
//@ focus: read_turn write_turn guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static _Atomic int words[4];

KEEP static int read_turn(_Atomic int *turns, int i)
{
    return *(turns + i);
}

KEEP static void write_turn(_Atomic int *turns, int i, int who)
{
    __asm__ volatile("" ::: "memory");
    *(turns + i) = who;
}

static int is_turn_of(int who)
{
    return read_turn(words, 2) == who;
}

static void hand_to(int who)
{
    write_turn(words, 2, who);
}

#include "../lib/turns.h"
