// The phases of a std::barrier: each thread writes its own half, and the completion step, which runs in
// whichever thread came last, reads both halves and changes what all read in the next phase.
//@ build: O2
//@ full: O0 O0+clang O2+clang O2+nodebug O2+clang+nodebug O3
//@ flags: -std=c++20
//@ focus: contribute complete
//@ twin-expect: what=rate functions=contribute,complete
#include "../lib/crew.h"
#include <barrier>
#include <thread>

static long halves[2];
static long rate = 1, total;

KEEP static void contribute(int who, long amount)
{
    halves[who] += amount * rate;
}

KEEP static void complete() noexcept
{
    total += halves[0] + halves[1];
    rate = total % 7 + 1;
}

int main()
{
    auto completion = []() noexcept { complete(); };
    std::barrier barrier(2, completion);
    auto work = [&](int who) {
#ifdef TWIN
        for (unsigned i = 0; i < ROUNDS; i++) {
            if (who == 0)
                contribute(who, i);
            else
                complete();
            busy(4);
        }
#else
        for (unsigned i = 0; i < ROUNDS / 20; i++) {
            contribute(who, i);
            barrier.arrive_and_wait();
        }
#endif
    };
    std::thread other(work, 1);
    work(0);
    other.join();
}
