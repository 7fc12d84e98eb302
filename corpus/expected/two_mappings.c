// One page mapped twice: a write through one mapping changes the bytes under
// the other, where no watch on the address can see it.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: origin=unknown what=* region=shared functions=read_front
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <sys/mman.h>
#include <unistd.h>

static long *front;
static long *back;

KEEP static long read_front(const long *page)
{
    return page[5];
}

KEEP static void write_back(long *page, long value)
{
    page[5] = value;
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(read_front(front));
        busy(4);
    }
}

static void writer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        write_back(back, i);
        busy(4);
    }
}

int main(void)
{
    int file = memfd_create("page", 0);
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 1;
    front = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    back = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (front == MAP_FAILED || back == MAP_FAILED)
        return 1;
    return run_pair(reader, writer);
}
