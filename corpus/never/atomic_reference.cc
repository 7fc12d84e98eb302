// Functions that return references to atomics: pick(i) = pick(i + 1) + 1. The operators of
// std::atomic hide the loads and stores.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: advance look note
//@ twin-expect: what=grid.cells functions=advance,look
#include "../lib/crew.h"
#include <array>
#include <atomic>

#ifdef TWIN
using cell = long;
#else
using cell = std::atomic<long>;
#endif

struct table {
    std::array<std::array<cell, 4>, 4> cells;
    cell &operator()(unsigned i, unsigned j) { return cells[i % 4][j % 4]; }
} grid;

static inline cell &pick(unsigned i)
{
    return grid(i / 4, i);
}

template <class T> static inline long twice(T &&value)
{
    return value + value;
}

KEEP static void advance(unsigned i)
{
    pick(i) = pick(i + 1) + 1;
    (i & 1 ? pick(i) : grid(i, i)) = static_cast<long>(i);
}

KEEP static long look(unsigned i)
{
    auto &seen = grid(i, i + 1);
    const cell *at = &seen;
    return twice(seen) + *at + (pick(i) > 3 ? long(pick(i + 2)) : 0);
}

static long notes[32];

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, advance(i); note(0))
REPEAT(reader, use_value(look(i)); advance(i + 3); note(1))

int main()
{
    return run_pair(writer, reader);
}
