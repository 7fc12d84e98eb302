// What most modules share: two kernel threads, each on a CPU of its own, that
// do their part again and again until the module is unloaded.
#ifndef CORPUS_KERNEL_CREW_H
#define CORPUS_KERNEL_CREW_H

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 17, 0)
static inline struct task_struct *kthread_run_on_cpu(int (*work)(void *), void *data,
                                                     unsigned int cpu, const char *name)
{
    struct task_struct *task = kthread_create(work, data, name, cpu);

    if (!IS_ERR(task)) {
        kthread_bind(task, cpu);
        wake_up_process(task);
    }
    return task;
}
#endif

// A function that keeps its name, its arguments and its accesses: not inlined,
// not cloned, and not seen through by its callers.
#define KEEP noinline __attribute__((__noipa__))

// One round of a thread's work.
typedef void (*crew_role)(void);

static struct task_struct *crew_members[2];

// The CPU of a seat: the first two that are online, or one for both.
static inline unsigned int crew_cpu(unsigned int seat)
{
    unsigned int first = cpumask_first(cpu_online_mask);
    unsigned int second = cpumask_next(first, cpu_online_mask);

    return seat == 0 || second >= nr_cpu_ids ? first : second;
}

// A little time between two accesses. It is not spent on `pause`: a CPU that
// pauses looks like one that waits for a lock.
static inline void crew_idle(unsigned int turns)
{
    while (turns--)
        barrier();
}

// Other tasks get their turn often, and the CPU a short rest now and then, so
// that both sides are at work nearly all the time and the machine still answers.
static inline void crew_breathe(unsigned int round)
{
    crew_idle(40);
    if (round % 64 == 0)
        cond_resched();
    if (round % 4096 == 0)
        usleep_range(100, 200);
}

static inline int crew_member(void *data)
{
    crew_role work = data;
    unsigned int round;

    for (round = 1; !kthread_should_stop(); round++) {
        work();
        crew_breathe(round);
    }
    return 0;
}

static inline void crew_stop(void)
{
    unsigned int seat;

    for (seat = 0; seat < ARRAY_SIZE(crew_members); seat++) {
        if (crew_members[seat])
            kthread_stop(crew_members[seat]);
        crew_members[seat] = NULL;
    }
}

// Starts a thread on the CPU of `seat`.
static inline int crew_seat(unsigned int seat, crew_role work)
{
    struct task_struct *task =
        kthread_run_on_cpu(crew_member, work, crew_cpu(seat), KBUILD_MODNAME "/%u");

    if (IS_ERR(task))
        return PTR_ERR(task);
    crew_members[seat] = task;
    return 0;
}

static inline int crew_start(crew_role first, crew_role second)
{
    int error = crew_seat(0, first);

    if (!error)
        error = crew_seat(1, second);
    if (error)
        crew_stop();
    return error;
}

// A module that is nothing but two threads.
#define CREW_MODULE(first, second, about)      \
    static int __init crew_module_init(void)   \
    {                                          \
        return crew_start(first, second);      \
    }                                          \
    static void __exit crew_module_exit(void)  \
    {                                          \
        crew_stop();                           \
    }                                          \
    module_init(crew_module_init);             \
    module_exit(crew_module_exit);             \
    CREW_LICENSE(about)

#define CREW_LICENSE(about)                    \
    MODULE_DESCRIPTION(about);                 \
    MODULE_LICENSE("Dual MIT/GPL")

#endif
