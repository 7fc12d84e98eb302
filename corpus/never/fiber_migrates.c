// Fibers with stacks on the heap: each is continued by whichever thread takes it from a locked list, so
// that plain locals of one stack are used by both threads, in turns.
//@ build: O2
//@ full: O0 O0+clang O2+clang O2+nodebug O2+clang+nodebug O3 Os
//@ focus: step
//@ twin-expect: what=steps functions=step,step
#include "../lib/crew.h"
#include <ucontext.h>

#define FIBERS 3
static struct fiber {
    ucontext_t here, *back;
    int is_ready, is_done;
    char stack[32768];
} fibers[FIBERS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long steps;

KEEP static void step(long *local, unsigned char *marks)
{
#ifdef TWIN
    steps++;
#endif
    (*local)++;
    marks[*local % 16] ^= 1;
}

static void body(int which)
{
    struct fiber *fiber = &fibers[which];
    long local = 0;
    unsigned char marks[16] = {0};
    for (unsigned i = 0; i < ROUNDS / 40; i++) {
        step(&local, marks);
        swapcontext(&fiber->here, fiber->back);
    }
    fiber->is_done = local != 0;
    swapcontext(&fiber->here, fiber->back);
}

static int run_one(ucontext_t *back)
{
    struct fiber *taken = NULL;
    int left = 0;
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < FIBERS; i++) {
        left += fibers[i].is_ready >= 0;
        if (!taken && fibers[i].is_ready > 0) {
            taken = &fibers[i];
            taken->is_ready = 0;
        }
    }
    pthread_mutex_unlock(&mutex);
    if (taken) {
        taken->back = back;
        swapcontext(back, &taken->here);
        pthread_mutex_lock(&mutex);
        taken->is_ready = taken->is_done ? -1 : 1;
        pthread_mutex_unlock(&mutex);
    }
    return left;
}

static void work(void)
{
    ucontext_t back;
#ifdef TWIN
    long local = 0;
    unsigned char marks[16] = {0};
    for (unsigned i = 0; i < ROUNDS; i++) {
        step(&local, marks);
        busy(4);
    }
#endif
    while (run_one(&back))
        busy(4);
}

int main(void)
{
    for (int i = 0; i < FIBERS; i++) {
        getcontext(&fibers[i].here);
        fibers[i].here.uc_stack.ss_sp = fibers[i].stack;
        fibers[i].here.uc_stack.ss_size = sizeof fibers[i].stack;
        makecontext(&fibers[i].here, (void (*)(void))body, 1, i);
        fibers[i].is_ready = 1;
    }
    return run_pair(work, work);
}
