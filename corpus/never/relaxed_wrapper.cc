// A class whose operators are relaxed loads and stores, so that statements look plain: `hits++`, `peak = i`; also
// through a member pointer, a structured binding and a range-for.
//@ full: O2 O2+clang O0 O3+clang O2+clang+nodebug
//@ flags: -std=c++17
//@ focus: put get note
//@ twin-expect: what=stats.hits functions=put,get
#include "../lib/crew.h"
#include <atomic>

#ifdef TWIN
template <class T> using relaxed = T;
#else
template <class T> class relaxed {
    std::atomic<T> inner{};

public:
    operator T() const { return inner.load(std::memory_order_relaxed); }
    relaxed &operator=(T value)
    {
        inner.store(value, std::memory_order_relaxed);
        return *this;
    }
    // One writer only, so that no exchange is needed.
    T operator++(int)
    {
        T old = inner.load(std::memory_order_relaxed);
        inner.store(old + 1, std::memory_order_relaxed);
        return old;
    }
    relaxed &operator+=(T n) { return *this = *this + n; }
};
#endif

struct statistics {
    relaxed<long> hits;
    relaxed<long> misses;
};
static statistics stats;
static relaxed<long> slots[4];
static long notes[32];

KEEP static void put(long i)
{
    stats.hits++;
#ifndef TWIN
    relaxed<long> statistics::*field = &statistics::misses;
    stats.*field = i;
    auto &[h, m] = stats;
    m += 2;
    for (auto &slot : slots)
        slot = i;
#endif
}

KEEP static long get()
{
    long sum = stats.hits;
#ifndef TWIN
    auto &[h, m] = stats;
    sum += h + m;
    for (const auto &slot : slots)
        sum += slot;
#endif
    return sum;
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, put(i); note(0))
REPEAT(reader, use_value(get()); note(1))

int main()
{
    return run_pair(writer, reader);
}
