// std::atomic of a 16-byte structure, whose accesses are calls of libatomic.
//@ build: O0 O2
//@ full: O2+clang O2+static O2+nodebug
//@ flags: -mcx16 -latomic
//@ focus: is_turn_of hand_to guarded_bump
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"
#include <atomic>

struct pair {
    long who, count;
};

static std::atomic<pair> turn;

KEEP static int is_turn_of(int who)
{
    return turn.load(std::memory_order_acquire).who == who;
}

KEEP static void hand_to(int who)
{
    turn.store(pair{who, who + 3}, std::memory_order_release);
}

#include "../lib/turns.h"
