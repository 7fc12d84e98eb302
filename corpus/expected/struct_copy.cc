// A structure is assigned as a whole (vector moves, or a call to memcpy) while
// another thread updates one of its members: the copy can be half old, half new.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=live functions=~snapshot,update_limit
#include "../lib/crew.h"
#include <cstdint>
#include <thread>

struct Settings {
    std::uint64_t id;
    std::uint64_t limits[4];
    std::uint64_t checksum;
};

static Settings live;

KEEP static void snapshot(Settings *into)
{
    *into = live;
}

KEEP static void update_limit(std::uint64_t limit)
{
    live.limits[2] = limit;
}

int main()
{
    std::thread reader([] {
        Settings copy;
        for (unsigned i = 0; i < ROUNDS; i++) {
            snapshot(&copy);
            busy(4);
        }
    });
    std::thread writer([] {
        for (unsigned i = 0; i < ROUNDS; i++) {
            update_limit(i);
            busy(4);
        }
    });
    reader.join();
    writer.join();
    return 0;
}
