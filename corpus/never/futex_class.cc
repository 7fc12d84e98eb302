// A mutex of a class over futex: std::atomic members behind `this`, a scope that unlocks, and
// statistics that only the owner changes.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: lock unlock deposit
//@ twin-expect: what=account functions=~deposit,~deposit
#include "../lib/crew.h"
#include <atomic>
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

class mutex {
    std::atomic<int> word{0};
    std::atomic<unsigned> waiters{0};
    unsigned long taken = 0;

    long futex(int what, int value)
    {
        return syscall(SYS_futex, reinterpret_cast<int *>(&word), what, value, nullptr);
    }

public:
    KEEP void lock()
    {
#ifndef TWIN
        int none = 0;
        if (!word.compare_exchange_strong(none, 1, std::memory_order_acquire)) {
            waiters += 1;
            while (word.exchange(2, std::memory_order_acquire) != 0)
                futex(FUTEX_WAIT_PRIVATE, 2);
            waiters -= 1;
        }
#endif
        taken++;
    }
    KEEP void unlock()
    {
#ifndef TWIN
        bool sleepers = word == 2;
        word = 0;
        if (sleepers || waiters)
            futex(FUTEX_WAKE_PRIVATE, 1);
#endif
    }
    unsigned long count() const { return taken; }
};

static mutex guard;
static struct {
    long money;
    short moves;
} account;

struct scope {
    mutex &held;
    explicit scope(mutex &it) : held(it) { held.lock(); }
    ~scope() { held.unlock(); }
};

KEEP static void deposit(long more)
{
    scope locked(guard);
    account.money += more;
    account.moves++;
}

REPEAT(customer, deposit(i))

int main()
{
    int status = run_pair(customer, customer);
    return guard.count() > 0 ? status : 1;
}
