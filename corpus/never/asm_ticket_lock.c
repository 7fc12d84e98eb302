// The ticket lock of old kernels, in assembly: tickets are drawn by a locked add, and the owner
// hands on by an increment that is not locked.
//@ build: O2+nodebug O2
//@ full: O2+stripped O3+nodebug
//@ focus: enter leave guarded_bump
//@ twin-expect: class=* what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

static struct {
    volatile unsigned short owner;
    volatile unsigned short next;
} tickets;
static long balance;

KEEP static void enter(void)
{
#ifndef TWIN
    unsigned short mine = 1, owner;
    __asm__ volatile("lock xaddw %0, %1" : "+r"(mine), "+m"(tickets.next)::"memory");
    for (unsigned turns = 0;; turns++) {
        __asm__ volatile("movw %1, %0" : "=r"(owner) : "m"(tickets.owner) : "memory");
        if (owner == mine)
            return;
        relax(turns);
    }
#endif
}

KEEP static void leave(void)
{
#ifndef TWIN
    __asm__ volatile("incw %0" : "+m"(tickets.owner)::"memory");
#else
    (void)tickets;
#endif
}

KEEP static void guarded_bump(void)
{
    balance++;
}

REPEAT(worker, enter(); guarded_bump(); leave())

int main(void)
{
    return run_pair(worker, worker);
}
