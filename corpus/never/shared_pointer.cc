// std::shared_ptr counts its users atomically, and the last one deletes. The copies are taken
// under a lock.
//@ build: O0 O2
//@ full: O2+clang O3 O2+nodebug O2+stripped
//@ focus: look replace
//@ twin-expect: what=only functions=look,replace
#include "../lib/crew.h"
#include <memory>
#include <mutex>

struct config {
    long version;
};

static std::shared_ptr<config> current = std::make_shared<config>();
static std::mutex lock;
#ifdef TWIN
static config only;
#endif

KEEP static long look(const config &seen)
{
    return seen.version;
}

KEEP static void replace(long version)
{
#ifdef TWIN
    only.version = version;
#else
    auto next = std::make_shared<config>();
    next->version = version;
    std::lock_guard<std::mutex> guard(lock);
    current.swap(next);
#endif
}

static void reader()
{
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
#ifdef TWIN
        use_value(look(only));
#else
        std::shared_ptr<config> mine;
        {
            std::lock_guard<std::mutex> guard(lock);
            mine = current;
        }
        use_value(look(*mine));
#endif
        busy(4);
    }
}

static void writer()
{
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        replace(i);
        busy(4);
    }
}

int main()
{
    return run_pair(reader, writer);
}
