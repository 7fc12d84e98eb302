// std::atomic: a relaxed counter with one writer and a message guarded by a
// flag. At -O0 the operations are calls, at -O2 they are plain moves. In the twin
// the counter is plain and nobody asks the flag.
//@ build: O0 O2 O2+stripped
//@ full: O2+clang O3
//@ focus: write_message read_message
//@ twin-expect: what=message functions=write_message,read_message
//@ twin-expect: what=progress functions=publish,observe
#include "../lib/crew.h"
#include <atomic>
#include <thread>

#ifndef TWIN
static std::atomic<long> progress;
static std::atomic<bool> full;
#else
static long progress;
#endif

static struct {
    long text;
    long length;
} message;

KEEP static void publish(long done)
{
#ifndef TWIN
    progress.store(done, std::memory_order_relaxed);
#else
    progress = done;
#endif
}

KEEP static long observe()
{
#ifndef TWIN
    return progress.load(std::memory_order_relaxed);
#else
    return progress;
#endif
}

KEEP static void write_message(long text)
{
    message.text = text;
    message.length = 1;
}

KEEP static long read_message()
{
    long text = message.text;
    message.length = 0;
    return text;
}

static bool is_full(bool wanted)
{
#ifndef TWIN
    return full.load(std::memory_order_acquire) == wanted;
#else
    (void)wanted;
    return true;
#endif
}

static void set_full(bool now)
{
#ifndef TWIN
    full.store(now, std::memory_order_release);
#else
    (void)now;
#endif
}

static void send()
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        publish(i);
        if (is_full(false)) {
            write_message(i);
            set_full(true);
        }
        busy(4);
    }
}

static void receive()
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(observe());
        if (is_full(true)) {
            use_value(read_message());
            set_full(false);
        }
        busy(4);
    }
}

int main()
{
    std::thread sender(send), receiver(receive);
    sender.join();
    receiver.join();
    return 0;
}
