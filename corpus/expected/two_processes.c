// Two processes on one shared page. The child is not followed: what it writes
// shows as bytes that change under the parent, of unknown origin.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: origin=unknown what=* region=shared functions=parent_step
#include "../lib/crew.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

KEEP static void parent_step(long *shared)
{
    (*shared)++;
}

KEEP static void child_step(long *shared)
{
    (*shared) += 1000;
}

int main(void)
{
    long *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        // Longer than the parent: it must be there for all of the parent's time.
        for (unsigned i = 0; i < 2 * ROUNDS; i++) {
            child_step(shared);
            busy(4);
        }
        _exit(0);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        parent_step(shared);
        busy(4);
    }
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
