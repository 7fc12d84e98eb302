// A thread writes what is there already: the number of its process.
//@ race: what=owner_pid truth=benign category=redundant-write
//@ reason: the value never changes after the first write, which comes before the other thread
#include "../../lib/crew.h"
#include <unistd.h>

static int owner_pid;
static unsigned mine;

KEEP static void claim(void)
{
    owner_pid = getpid();
}

KEEP static void check(int pid)
{
    if (owner_pid == pid)
        mine++;
}

static void claimer(void)
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        claim();
        busy(4);
    }
}

static void checker(void)
{
    int pid = getpid();
    for (unsigned i = 0; i < ROUNDS; i++) {
        check(pid);
        busy(4);
    }
}

int main(void)
{
    claim();
    return run_pair(claimer, checker);
}
