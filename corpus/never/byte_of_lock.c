// A queued lock as in kernels: the holder releases it by an atomic store of one byte of the word that the
// others compare and exchange whole.
//@ full: O2 O2+clang O0 O3+clang O2+nodebug
//@ focus: take give peek bump
//@ twin-expect: what=balance functions=bump,bump
#include "../lib/crew.h"
#include <stdint.h>

struct queued {
    union {
        uint32_t whole;
        struct {
            uint8_t locked;
            uint8_t pending;
            uint16_t tail;
        };
    };
};

static struct queued lock;
static long balance;

KEEP static void take(void)
{
    for (unsigned turns = 0;; turns++) {
        uint32_t free = 0;
        if (__atomic_compare_exchange_n(&lock.whole, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
        while (__atomic_load_n(&lock.locked, __ATOMIC_RELAXED))
            relax(turns++);
    }
}

KEEP static void give(void)
{
    __atomic_store_n(&lock.locked, 0, __ATOMIC_RELEASE);
}

KEEP static int peek(void)
{
    return __atomic_load_n(&lock.whole, __ATOMIC_RELAXED) & 0xff;
}

KEEP static void bump(void)
{
    balance++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
#ifdef TWIN
        bump();
#else
        take();
        bump();
        give();
        use_value(peek());
#endif
        busy(4);
    }
}

int main(void)
{
    (void)take, (void)give, (void)peek;
    return run_pair(worker, worker);
}
