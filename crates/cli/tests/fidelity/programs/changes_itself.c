/* Rewrites instructions of its own text, which several threads run, again and again. */
#include "work.h"
#include <sys/mman.h>

enum { ROUNDS = 500 };
/* The number that is added is a byte of the instruction; the rest of it is an access
   like any other. In a page of its own, so that the rights of no other code change. */
__asm__(".text\n .p2align 12\n .globl change\n .type change, @function\nchange:\n"
        " .cfi_startproc\n addq $1, (%rdi)\n mov (%rdi), %rax\n ret\n .cfi_endproc\n .size change, . - change\n"
        " .p2align 12\n");
long change(long *);

/* A whole function that becomes another. */
__asm__(".text\n .p2align 12\n .globl becomes\n .type becomes, @function\nbecomes:\n"
        " .cfi_startproc\n mov (%rdi), %rax\n add %rax, %rax\n mov %rax, (%rdi)\n ret\n nop\n .cfi_endproc\n"
        " .size becomes, . - becomes\n .p2align 12\n");
long becomes(long *);

static long racy;
static int over;
static void *calls(void *unused) {
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        change(&racy);
    return unused;
}

static void rights(void *page, int which) { CHECK(!mprotect(page, 4096, which)); }

int main(void) {
    unsigned char *code = (unsigned char *)change, *other = (unsigned char *)becomes;
    static const unsigned char twice[] = {0x48, 0x8b, 0x07, 0x48, 0x01, 0xc0, 0x48, 0x89, 0x07, 0xc3, 0x90},
                               thrice[] = {0x48, 0x8b, 0x07, 0x48, 0x8d, 0x04, 0x40, 0x48, 0x89, 0x07, 0xc3};
    work_starts();
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        CHECK(!pthread_create(&threads[t], 0, calls, 0));
    long own = 0, expected = 0, power = 1;
    for (int round = 0; round < ROUNDS; round++) {
        rights(code, PROT_READ | PROT_WRITE | PROT_EXEC);
        ((volatile unsigned char *)code)[3] = round % 100;
        rights(code, PROT_READ | PROT_EXEC);
        for (int turn = 0; turn < 20; turn++) {
            expected += round % 100;
            CHECK(change(&own) == expected);
        }
        rights(other, PROT_READ | PROT_WRITE | PROT_EXEC);
        memcpy(other, round % 2 ? twice : thrice, sizeof thrice);
        rights(other, PROT_READ | PROT_EXEC);
        power = 1;
        for (int turn = 0; turn < 10; turn++)
            becomes(&power);
        CHECK(power == (round % 2 ? 1024 : 59049));
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int t = 0; t < 2; t++)
        CHECK(!pthread_join(threads[t], 0));
    work_ends();
    puts("changed itself");
    return 0;
}
