// A page of a file that two mappings show at different addresses; locks on the open file description (F_OFD_SETLKW)
// are all that orders the two threads.
//@ build: O2
//@ full: O0 O2+clang O2+nodebug O2+clang+nodebug
//@ focus: bump
//@ twin-expect: origin=unknown what=* functions=bump
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct page {
    long balance;
    int entries;
    char name[16];
};
static int file;

KEEP static void bump(struct page *page)
{
    page->balance++;
    page->entries += 2;
    page->name[page->balance & 15] ^= 1;
}

static void work(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    // Opened again: locks belong to what was opened, not to the thread.
    int mine = open(path, O_RDWR);
    struct page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mine, 0);
    if (mine < 0 || page == MAP_FAILED)
        exit(1);
#ifdef TWIN
    for (unsigned i = 0; i < ROUNDS; i++) {
        bump(page);
        busy(4);
    }
#else
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(mine, F_OFD_SETLKW, &whole) != 0)
            exit(1);
        bump(page);
        whole.l_type = F_UNLCK;
        fcntl(mine, F_OFD_SETLK, &whole);
    }
#endif
}

int main(void)
{
    file = memfd_create("page", 0);
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 1;
    return run_pair(work, work);
}
