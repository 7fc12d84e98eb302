// Code that the program makes at run time stores into memory that C reads atomically. Nothing says
// whether the store is meant to be atomic.
//@ full: O2 O0 O2+clang O2+nodebug
//@ focus: look note
// Where its instructions begin is not known either, so nobody is named.
//@ twin-expect: origin=unknown what=level functions=look class=*
//@ allow: possibly-atomic
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <string.h>
#include <sys/mman.h>

static long level;
static long notes[32];
static void (*store)(long *, long);

KEEP static long look(void)
{
#ifdef TWIN
    return level;
#else
    return __atomic_load_n(&level, __ATOMIC_RELAXED);
#endif
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, store(&level, i); note(0))
REPEAT(reader, use_value(look()); note(1))

int main(void)
{
    static const unsigned char code[] = {0x48, 0x89, 0x37, 0xc3}; // mov [rdi], rsi; ret
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    memcpy(page, code, sizeof code);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0)
        return 1;
    memcpy(&store, &page, sizeof store);
    return run_pair(writer, reader);
}
