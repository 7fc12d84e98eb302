// A settings object that is made on first use, behind a "double-checked" lock.
// The first check takes no lock, so it races with the store of the pointer. A
// thread that sees the pointer early may use an object that is not filled in.
#include <mutex>
#include <thread>

struct Settings {
    int retries = 3;
};

static Settings *current;
static std::mutex making;

__attribute__((noinline)) static Settings *settings()
{
    if (!current) {
        std::lock_guard<std::mutex> hold(making);
        if (!current)
            current = new Settings;
    }
    return current;
}

static void serve()
{
    for (volatile int retries = settings()->retries; retries > 0;)
        retries = retries - 1;
}

int main()
{
    for (int round = 0; round < 2000; round++) {
        std::thread one(serve), two(serve), three(serve);
        one.join();
        two.join();
        three.join();
        delete current;
        current = nullptr;
    }
}
