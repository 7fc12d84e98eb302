// std::call_once and pthread_once make objects on first use; flags are reset between rounds by
// a barrier. What they made is read without a lock.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ focus: use_table make_table
//@ twin-expect: what=entries functions=~make_table,~use_table
#include "../lib/crew.h"
#include <mutex>
#include <new>

struct slot {
    std::once_flag flag;
    pthread_once_t other = PTHREAD_ONCE_INIT;
};

static slot slots[4096];
static long entries[4096];
static thread_local unsigned at;

KEEP static void make_table(unsigned i)
{
    entries[i % 4096] = i + 1;
}

static void by_thread_local()
{
    entries[at]++;
}

KEEP static long use_table(unsigned i)
{
#ifdef TWIN
    make_table(i);
#else
    slot &mine = slots[i % 4096];
    std::call_once(mine.flag, make_table, i % 4096);
    at = i % 4096;
    pthread_once(&mine.other, by_thread_local);
#endif
    return entries[i % 4096];
}

REPEAT(user, if (use_table(i) == 0) abort())

int main()
{
    return run_pair(user, user);
}
