// std::atomic_store and std::atomic_load of a shared_ptr, which take a lock of a hidden table.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: publish look
//@ flags: -Wno-deprecated-declarations
//@ twin-expect: what=current functions=~publish,~look
#include "../lib/crew.h"
#include <memory>

struct settings {
    long version;
    long copy;
};

#ifdef TWIN
static long current;
#else
static std::shared_ptr<settings> current = std::make_shared<settings>();
#endif

KEEP static void publish(long version)
{
#ifdef TWIN
    current = version;
#else
    auto next = std::make_shared<settings>();
    next->version = version;
    next->copy = version;
    std::atomic_store(&current, std::move(next));
#endif
}

KEEP static long look()
{
#ifdef TWIN
    return current;
#else
    auto seen = std::atomic_load_explicit(&current, std::memory_order_acquire);
    return seen->version - seen->copy;
#endif
}

static void writer()
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        publish(i);
        busy(4);
    }
}

static void reader()
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        if (look() < -5)
            abort();
        busy(4);
    }
}

int main()
{
    return run_pair(writer, reader);
}
