// C++20's stop tokens, latches, barriers and atomic waits, all of them inlined from the library's headers.
//@ full: O2 O2+clang O0 O2+static
//@ flags: -std=c++20
//@ focus: asked rest bump
//@ twin-expect: what=rounds functions=bump,bump
#include "../lib/crew.h"
#include <atomic>
#include <barrier>
#include <latch>
#include <stop_token>
#include <thread>

static long rounds;
static std::atomic<int> steps;

KEEP static bool asked(const std::stop_token &token)
{
    return token.stop_requested();
}

KEEP static void bump()
{
    rounds++;
}

template <class Barrier> KEEP static void rest(Barrier &barrier)
{
    barrier.arrive_and_wait();
}

int main()
{
    for (int k = 0; k < 20; k++) {
        std::stop_source source;
        std::latch started(3);
        auto done = []() noexcept { steps.fetch_add(1, std::memory_order_relaxed); };
        std::barrier barrier(2, done);
        auto work = [&](bool ends) {
            std::stop_token token = source.get_token();
            std::stop_callback called(token, [] { steps.notify_all(); });
            started.arrive_and_wait();
            for (int i = 0; i < 2000; i++) {
#ifdef TWIN
                bump();
                busy(20);
#else
                if (i % 8 == 0) {
                    if (ends)
                        bump();
                    rest(barrier);
                    if (!ends)
                        bump();
                    rest(barrier);
                }
                use_value(asked(token));
#endif
            }
            if (ends)
                source.request_stop();
        };
        std::jthread one(work, true), two(work, false);
        started.arrive_and_wait();
        while (!source.stop_requested())
            std::this_thread::yield();
    }
    return 0;
}
