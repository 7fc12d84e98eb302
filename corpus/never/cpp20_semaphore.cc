// What C++20 brought: std::counting_semaphore, atomic wait and notify, atomic_ref
// of elements of a vector, atomic_flag::test. Plain data go along.
//@ build: O2 O2+clang
//@ full: O0 O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ flags: -std=c++20
//@ allow: possibly-atomic in *+clang
//@ focus: hand_over fetch mark
//@ twin-expect: what=* functions=~hand_over,~fetch
#include "../lib/crew.h"
#include <atomic>
#include <semaphore>
#include <vector>

static std::counting_semaphore<8> filled(0), empty(8);
static long letters[8];
static std::atomic<int> stage{0};
static std::vector<double> marks(16);
static std::atomic_flag busy_flag;

KEEP static void hand_over(unsigned i)
{
#ifndef TWIN
    empty.acquire();
#endif
    letters[i % 8] = i;
#ifndef TWIN
    filled.release();
#endif
}

KEEP static long fetch(unsigned i)
{
#ifndef TWIN
    filled.acquire();
#endif
    long letter = letters[i % 8];
#ifndef TWIN
    empty.release();
#endif
    return letter;
}

KEEP static void mark(unsigned i)
{
#ifdef TWIN
    (void)i;
#else
    std::atomic_ref<double> one(marks[i % 16]);
    one = one + 1.0;
    one.store(std::atomic_ref<double>(marks[(i + 1) % 16]).load(std::memory_order_relaxed));
    if (!busy_flag.test(std::memory_order_relaxed) && !busy_flag.test_and_set())
        busy_flag.clear();
#endif
}

static void sender()
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        hand_over(i);
        mark(i);
        if (i % 64 == 0) {
            stage = static_cast<int>(i + 1);
            stage.notify_one();
        }
    }
}

static void receiver()
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        if (i % 64 == 0)
            for (int seen = stage; seen < static_cast<int>(i + 1); seen = stage)
#ifdef TWIN
                busy(1);
#else
                stage.wait(seen);
#endif
        use_value(fetch(i));
        mark(i);
    }
}

int main()
{
    return run_pair(sender, receiver);
}
