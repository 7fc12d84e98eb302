// Blocks of a small pool wander between threads: taken and given back under a
// lock, used without it by whoever has taken them. The twin forgets to mark what it took.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: use_block
//@ twin-expect: what=blocks functions=use_block,use_block
#include "../lib/crew.h"

enum { BLOCKS = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    int taken;
    long uses;
} blocks[BLOCKS];

KEEP static int take_block(void)
{
    int mine = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS && mine < 0; i++) {
        if (!blocks[i].taken) {
#ifndef TWIN
            blocks[i].taken = 1;
#endif
            mine = i;
        }
    }
    pthread_mutex_unlock(&lock);
    return mine;
}

KEEP static void give_back(int block)
{
    pthread_mutex_lock(&lock);
    blocks[block].taken = 0;
    pthread_mutex_unlock(&lock);
}

KEEP static void use_block(int block)
{
    blocks[block].uses++;
}

static void worker(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        int mine = take_block();
        if (mine >= 0) {
            use_block(mine);
            busy(2);
            use_block(mine);
            give_back(mine);
        }
        busy(4);
    }
}

int main(void)
{
    return run_pair(worker, worker);
}
