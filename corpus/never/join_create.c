// Creating and joining a thread order what the parent does before and after
// with what the child does. The twin looks at the result before it joins.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: prepare work collect
//@ twin-expect: what=task.result functions=work,collect
#include "../lib/crew.h"

enum { TASKS = 150, STEPS = 2000 };

struct {
    long input;
    long result;
} task;

static int closing;

KEEP static void prepare(long input)
{
    task.input = input;
    task.result = 0;
}

KEEP static void work(void)
{
    task.result += task.input;
}

KEEP static long collect(void)
{
    return task.result;
}

static void *child(void *unused)
{
    for (int i = 0; i < STEPS; i++) {
        work();
        busy(4);
    }
    return unused;
}

// Somebody who runs all the time and touches nothing of the others.
static void *bystander(void *unused)
{
    while (!__atomic_load_n(&closing, __ATOMIC_ACQUIRE))
        busy(100);
    return unused;
}

static void collect_all(void)
{
    for (int i = 0; i < STEPS; i++) {
        use_value(collect());
        busy(4);
    }
}

int main(void)
{
    pthread_t other, worker;
    if (pthread_create(&other, NULL, bystander, NULL) != 0)
        return 1;
    for (int i = 0; i < TASKS; i++) {
        prepare(i);
        if (pthread_create(&worker, NULL, child, NULL) != 0)
            return 1;
#ifdef TWIN
        collect_all();
#endif
        pthread_join(worker, NULL);
        collect_all();
    }
    __atomic_store_n(&closing, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
    return 0;
}
