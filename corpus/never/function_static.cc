// Objects made on first use inside a function: the compiler's guard variable is
// read by a plain byte load and written in the C++ library. The twin does by
// hand what the guard does, without it. Many such objects, so that two threads
// meet at one of them, and a process repeated makes them all anew.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: lookup
//@ twin-expect: what=* functions=lookup,lookup
#include "../lib/crew.h"
#include <array>
#include <new>
#include <thread>
#include <utility>

struct Table {
    explicit Table(int id) : id(id)
    {
        for (int i = 0; i < 8; i++) {
            busy(20);
            rows[i] = id + i;
        }
    }

    int id;
    int rows[8];
};

template <int N> KEEP int lookup(int row)
{
#ifndef TWIN
    static Table table(N);
    return table.rows[row];
#else
    static bool made;
    alignas(Table) static unsigned char place[sizeof(Table)];
    if (!made) {
        new (place) Table(N);
        made = true;
    }
    return reinterpret_cast<Table *>(place)->rows[row];
#endif
}

using Lookup = int (*)(int);

template <int... N> constexpr std::array<Lookup, sizeof...(N)> all(std::integer_sequence<int, N...>)
{
    return {lookup<N>...};
}

static const auto lookups = all(std::make_integer_sequence<int, 48>());

static void use()
{
    for (unsigned pass = 0; pass < 2000; pass++) {
        for (Lookup look : lookups)
            use_value(look(static_cast<int>(pass & 7)));
        busy(200);
    }
}

int main()
{
    std::thread first(use), second(use);
    first.join();
    second.join();
    return 0;
}
