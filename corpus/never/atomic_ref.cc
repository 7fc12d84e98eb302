// std::atomic_ref makes atomic accesses of plain variables; the declared type is int.
//@ build: O0 O2
//@ full: O2+dwarf4 O2+nodebug O3
//@ flags: -std=c++20
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <atomic>

static int turn;

KEEP static int is_turn_of(int who)
{
    return std::atomic_ref<int>(turn).load(std::memory_order_acquire) == who;
}

KEEP static void hand_to(int who)
{
    std::atomic_ref<int>(turn).store(who, std::memory_order_release);
}

#include "../lib/turns.h"
