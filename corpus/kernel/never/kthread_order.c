// A thread prepares a job, starts another thread that does it, stops that one
// and collects the result: creating and stopping order their accesses. The
// twin collects while the job is still being done.
//@ focus: prepare_job do_job collect_job
//@ twin-expect: what=jobs functions=do_job,collect_job
#include "../lib/crew.h"

struct job {
    unsigned long wanted;
    unsigned long done;
};

// One for each of two pairs of threads, so that both CPUs are at work.
static struct job jobs[2];

KEEP static void prepare_job(struct job *job)
{
    job->wanted = 16;
    job->done = 0;
}

KEEP static void do_job(struct job *job)
{
    job->done++;
}

KEEP static unsigned long collect_job(struct job *job)
{
    return job->wanted - job->done;
}

static int worker(void *data)
{
    unsigned int round;

    for (round = 1; !kthread_should_stop(); round++) {
        do_job(data);
        crew_breathe(round);
    }
    return 0;
}

static void order_job(unsigned int seat)
{
    struct job *job = &jobs[seat];
    struct task_struct *task;
#ifdef TWIN
    unsigned int look;
#endif

    prepare_job(job);
    task = kthread_run_on_cpu(worker, job, crew_cpu(1 - seat), "job/%u");
    if (IS_ERR(task))
        return;
    // Long enough that the other thread gets a CPU before it is stopped.
    usleep_range(2000, 3000);
#ifdef TWIN
    for (look = 1; look < 5000; look++) {
        (void)collect_job(job);
        crew_breathe(look);
    }
#endif
    kthread_stop(task);
    (void)collect_job(job);
}

static void first(void)
{
    order_job(0);
}

static void second(void)
{
    order_job(1);
}

CREW_MODULE(first, second, "jobs ordered by creating and stopping threads");
