// A table that is read under a read lock and changed under the write lock.
//@ build: O0 O2 O2+nopie
//@ full: O2+clang O3
//@ focus: change_entry read_entry
//@ twin-expect: what=table functions=change_entry,read_entry
#include "../lib/crew.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long table[4];

static void enter(int writing)
{
#ifndef TWIN
    if (writing)
        pthread_rwlock_wrlock(&lock);
    else
        pthread_rwlock_rdlock(&lock);
#else
    (void)writing;
    (void)lock;
#endif
}

static void leave(void)
{
#ifndef TWIN
    pthread_rwlock_unlock(&lock);
#endif
}

KEEP static void change_entry(unsigned at, long value)
{
    table[at] = value;
}

KEEP static long read_entry(unsigned at)
{
    return table[at];
}

static void writer(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        enter(1);
        change_entry(1, i);
        leave();
        busy(8);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        enter(0);
        use_value(read_entry(1));
        leave();
        busy(8);
    }
}

int main(void)
{
    const role roles[] = {writer, reader, reader};
    return run_together(3, roles);
}
