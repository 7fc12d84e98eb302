// Overloads of one operator and of one function, by which some callers get a plain and others a volatile
// reference. Which one a call means depends on its argument.
//@ build: O2
//@ full: O0 O2+clang
//@ allow: possibly-atomic
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

struct shared_index {
    int number;
};

struct bag {
    int data[8];
    int &operator[](int i) { return data[i]; }
    volatile int &operator[](shared_index i) { return data[i.number]; }
    int &at(int i) { return data[i]; }
    volatile int &at(shared_index i) { return data[i.number]; }
};

static bag common;
static bag *all = &common;
static thread_local bag own;

KEEP static int is_turn_of(int who)
{
    own[3] = own.at(2);
    return (*all)[shared_index{3}] == who && all->at(shared_index{5}) == who;
}

KEEP static void hand_to(int who)
{
    __asm__ volatile("" ::: "memory");
    (*all)[shared_index{3}] = who;
    all->at(shared_index{5}) = who;
}

#include "../lib/turns.h"
