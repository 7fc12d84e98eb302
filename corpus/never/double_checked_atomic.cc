// Double-checked initialisation with an atomic pointer: the plain fields are written before
// it is published. In the twin nobody waits for the pointer.
//@ build: O0 O2
//@ full: O2+clang O3 O2+nodebug
//@ focus: fill get_field
//@ twin-expect: what=* functions=fill,get_field
#include "../lib/crew.h"
#include <atomic>
#include <mutex>

struct service {
    long field;
};

static service storage[64];
static std::atomic<service *> current;
static std::mutex lock;

KEEP static void fill(service *to, long value)
{
    to->field = value;
}

KEEP static long get_field(const service *from)
{
    return from->field;
}

static service *get(unsigned i)
{
    service *seen = current.load(std::memory_order_acquire);
    if (seen && (i & 31))
        return seen;
    std::lock_guard<std::mutex> guard(lock);
#ifdef TWIN
    service *next = &storage[0];
#else
    // A service that was never published has no reader.
    static unsigned used;
    if (used == 64)
        return current.load(std::memory_order_relaxed);
    service *next = &storage[used++];
#endif
    fill(next, i);
    current.store(next, std::memory_order_release);
    return next;
}

REPEAT(user, use_value(get_field(get(i))))

int main()
{
    return run_pair(user, user);
}
