// What most kernels share: threads that start together, and a little time
// between two accesses so that both sides are at work during the whole run.
#ifndef CORPUS_CREW_H
#define CORPUS_CREW_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

// A function that keeps its name, its arguments and its accesses at -O2.
#ifdef __clang__
#define KEEP __attribute__((noinline, used))
#else
#define KEEP __attribute__((noipa))
#endif

// Long enough that each side is met by the other, short enough to end soon.
#define ROUNDS 400000u

typedef void (*role)(void);

struct crew_member {
    role work;
    pthread_barrier_t *gate;
};

// The memory clobber also tells the compiler that globals may have changed,
// as any call into another file would.
static inline void busy(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++)
        __asm__ volatile("pause" ::: "memory");
}

// Makes use of a value, so that no compiler leaves out the call that it comes from.
#define use_value(value) __asm__ volatile("" : : "rm"(value))

// Waits a little in a loop that waits for another thread. After some turns it lets the
// processor go, because the other thread may need it.
static inline void relax(unsigned turns)
{
    if (turns < 50)
        busy(1);
    else
        sched_yield();
}

// A role that does `step` over and over; `i` counts.
#define REPEAT(name, step)                     \
    static void name(void)                     \
    {                                          \
        for (unsigned i = 0; i < ROUNDS; i++) { \
            step;                              \
            busy(4);                           \
        }                                      \
    }

static void *crew_start(void *arg)
{
    struct crew_member *member = (struct crew_member *)arg;
    role work = member->work;
    pthread_barrier_wait(member->gate);
    work();
    return NULL;
}

// Runs each role in a thread of its own and returns when all have ended.
static inline int run_together(unsigned count, const role *roles)
{
    pthread_barrier_t gate;
    pthread_t threads[4];
    struct crew_member members[4];

    if (count > 4 || pthread_barrier_init(&gate, NULL, count) != 0)
        return 1;
    for (unsigned i = 0; i < count; i++) {
        members[i].work = roles[i];
        members[i].gate = &gate;
        if (pthread_create(&threads[i], NULL, crew_start, &members[i]) != 0)
            exit(1);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&gate);
    return 0;
}

static inline int run_pair(role first, role second)
{
    const role roles[2] = {first, second};
    return run_together(2, roles);
}

#endif
