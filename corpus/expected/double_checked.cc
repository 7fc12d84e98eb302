// Double-checked locking with a plain pointer: the first check reads outside
// the lock what another thread writes inside it. The objects live for ever, so
// a stale pointer is harmless here.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=instance functions=get_instance,get_instance
//@ silent: what=created
#include "../lib/crew.h"
#include <mutex>
#include <thread>

struct Service {
    int generation;
};

static Service services[2];
static Service *instance;
static std::mutex guard;
static unsigned created;

KEEP static Service *get_instance()
{
    if (instance == nullptr) {
        std::lock_guard<std::mutex> hold(guard);
        if (instance == nullptr)
            instance = &services[created++ & 1];
    }
    return instance;
}

KEEP static void invalidate()
{
    std::lock_guard<std::mutex> hold(guard);
    instance = nullptr;
}

static void reload()
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        invalidate();
        busy(2);
        use_value(get_instance());
        busy(2);
    }
}

static void use()
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(get_instance());
        busy(4);
    }
}

int main()
{
    std::thread reloader(reload);
    std::thread user(use);
    reloader.join();
    user.join();
    return 0;
}
