// Memory that one thread reads while another one takes it away, piece by piece. Which piece is the current one is
// atomic, and each is unmapped when the next one is: by munmap, or by freeing a block so large that the C library
// unmaps it. The program defines `enter` and `leave`, which are all that keeps the two apart. What faults is a child.
#include "crew.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECES 600u
#define PAGE 4096ul
#define BLOCK (256 * 1024ul)

static long *pieces[PIECES];
static unsigned current;

KEEP static long read_page(const long *page)
{
    return *page;
}

KEEP static long read_block(const long *block)
{
    return block[64];
}

static void reader(void)
{
    for (unsigned at = 0; at < PIECES;) {
        enter();
        at = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
        if (at < PIECES)
            use_value(at % 2 ? read_page(pieces[at]) : read_block(pieces[at]));
        leave();
        busy(4);
    }
}

static void unmapper(void)
{
    for (unsigned at = 0; at < PIECES; at++) {
        busy(7000);
        enter();
        __atomic_store_n(&current, at + 1, __ATOMIC_RELEASE);
        leave();
        if (at % 2)
            munmap(pieces[at], PAGE);
        else
            free(pieces[at]);
    }
}

static int in_child(void)
{
    for (unsigned at = 0; at < PIECES; at++) {
        pieces[at] = at % 2 ? mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                            : malloc(BLOCK);
        if (pieces[at] == NULL || pieces[at] == MAP_FAILED)
            return 1;
    }
    return run_pair(reader, unmapper);
}

int main(void)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (unsigned turn = 0; turn < 2; turn++) {
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0)
            _exit(in_child());
        int status;
        if (waitpid(child, &status, 0) != child || (WIFEXITED(status) && WEXITSTATUS(status) != 0))
            return 1;
    }
    return 0;
}
