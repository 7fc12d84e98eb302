// A coroutine is resumed by two threads in turns, through a queue with a mutex. Its locals lie in a frame on the
// heap, which no thread's stack owns; they are plain.
//@ build: O2
//@ full: O0 O2+nodebug O3
//@ flags: -std=c++20
//@ focus: bump
//@ twin-expect: what=steps functions=bump,bump
#include "../lib/crew.h"
#if __has_include(<coroutine>) && defined __cpp_impl_coroutine
#include <coroutine>
#include <mutex>
#include <thread>
#include <utility>

static std::mutex mutex;
static std::coroutine_handle<> waiting;
static long steps;
static bool done;

struct Task {
    struct promise_type {
        Task get_return_object() { return {}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { abort(); }
    };
};

struct Hop {
    bool await_ready() const { return false; }
    // The coroutine may go on in the other thread as soon as the mutex is given back: nothing of
    // the frame is touched after that.
    KEEP void await_suspend(std::coroutine_handle<> handle)
    {
        std::lock_guard guard(mutex);
        waiting = handle;
    }
    void await_resume() const {}
};

KEEP static void bump(long *local)
{
    steps++;
    *local += steps;
}

static Task travel(unsigned hops)
{
    long local = 0;
    char name[24] = "traveller";
    for (unsigned i = 0; i < hops; i++) {
        bump(&local);
        name[i % 8] ^= 1;
        co_await Hop{};
    }
    std::lock_guard guard(mutex);
    done = local != 0 || name[0] != 0;
}

static bool resume_once()
{
    std::coroutine_handle<> handle;
    {
        std::lock_guard guard(mutex);
        if (done)
            return false;
        handle = std::exchange(waiting, nullptr);
    }
    if (handle)
        handle.resume();
    return true;
}

static void work()
{
#ifdef TWIN
    long local = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        bump(&local);
        busy(4);
    }
    (void)travel, (void)resume_once;
#else
    for (unsigned turns = 0; resume_once(); turns++)
        busy(2);
#endif
}

int main()
{
#ifndef TWIN
    travel(ROUNDS / 4);
#endif
    return run_pair(work, work);
}
#else
int main()
{
    return 77;
}
#endif
