/* Makes functions at run time, some in memory that is executable and writable at once,
   and makes others in their place, while several threads run them. */
#include "work.h"
#include <sys/mman.h>

enum { ROUNDS = 400, THREADS = 3 };
typedef long function(long *);

/* add qword [rdi], N; mov rax, [rdi]; ret: accesses that could be sampled. */
static function *make(unsigned char *at, signed char by) {
    unsigned char code[] = {0x48, 0x83, 0x07, (unsigned char)by, 0x48, 0x8b, 0x07, 0xc3};
    memcpy(at, code, sizeof code);
    return (function *)at;
}

static void *generates(void *unused) {
    unsigned char *both = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(both != MAP_FAILED);
    long number = 0, expected = 0;
    for (int round = 0; round < ROUNDS; round++) {
        function *in_place = make(both + round % 16 * 64, round % 100);
        for (int turn = 0; turn < 20; turn++) {
            expected += round % 100;
            CHECK(in_place(&number) == expected);
        }
        /* As a compiler does that keeps the two apart. */
        unsigned char *one = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(one != MAP_FAILED);
        function *fresh = make(one, -(round % 50));
        CHECK(!mprotect(one, 4096, PROT_READ | PROT_EXEC));
        expected -= round % 50;
        CHECK(fresh(&number) == expected);
        CHECK(!munmap(one, 4096));
        bump(&work.unguarded);
    }
    return unused;
}

/* One function for all, which nobody guards. */
static function *shared;
static long shared_number;
static void *calls(void *unused) {
    for (int turn = 0; turn < 300000; turn++)
        shared(&shared_number);
    return unused;
}

int main(void) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    shared = make(page, 1);
    work_starts();
    pthread_t threads[THREADS], callers[2];
    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_create(&threads[t], 0, generates, 0));
    for (int t = 0; t < 2; t++)
        CHECK(!pthread_create(&callers[t], 0, calls, 0));
    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_join(threads[t], 0));
    for (int t = 0; t < 2; t++)
        CHECK(!pthread_join(callers[t], 0));
    work_ends();
    CHECK(shared_number >= 300000 && shared_number <= 600000);
    static const unsigned char as_made[] = {0x48, 0x83, 0x07, 1, 0x48, 0x8b, 0x07, 0xc3};
    CHECK(!memcmp(page, as_made, sizeof as_made));
    puts("generated");
    return 0;
}
