// The same with a standard mutex.
//@ race: what=loaded truth=benign category=double-check
//@ reason: the second check is made with the lock held
#include "../lib/crew.h"
#include <mutex>

static std::mutex lock;
static bool loaded;
static unsigned loads;

KEEP static void load()
{
    if (!loaded) {
        std::lock_guard<std::mutex> guard(lock);
        if (!loaded) {
            loads++;
            loaded = true;
        }
    }
}

KEEP static void unload()
{
    std::lock_guard<std::mutex> guard(lock);
    loaded = false;
}

REPEAT(user, load())
REPEAT(owner, unload())

int main()
{
    return run_pair(user, owner);
}
