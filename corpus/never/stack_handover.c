// A job lives on its owner's stack; the owner hands it to a worker and takes it
// back, both under a mutex. In the twin nobody waits for anybody.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: fill_job do_job read_job
//@ twin-expect: what=* region=stack functions=fill_job,do_job
#include "../lib/crew.h"

enum { JOBS = 3000, TO_OWNER = 0, TO_WORKER = 1 };

struct job {
    long input;
    long output;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed = PTHREAD_COND_INITIALIZER;
static struct job *offered;
static int turn = TO_OWNER;

KEEP static void fill_job(struct job *job, long input)
{
    job->input = input;
    job->output = 0;
}

KEEP static void do_job(struct job *job)
{
    job->output = job->input * 2;
    job->input = 0;
}

KEEP static long read_job(const struct job *job)
{
    return job->output;
}

static void await_turn(int whose)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
    while (turn != whose)
        pthread_cond_wait(&handed, &lock);
    pthread_mutex_unlock(&lock);
#else
    (void)whose;
#endif
}

static void hand_to(int whose)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
    turn = whose;
    pthread_cond_broadcast(&handed);
    pthread_mutex_unlock(&lock);
#else
    (void)whose;
    (void)turn;
    (void)handed;
#endif
}

static void *worker(void *unused)
{
    for (int i = 0; i < JOBS; i++) {
        await_turn(TO_WORKER);
        for (int step = 0; step < 8; step++) {
            do_job(offered);
            busy(4);
        }
        hand_to(TO_OWNER);
    }
    return unused;
}

int main(void)
{
    struct job job = {0, 0};
    pthread_t helper;

    // Set once, before the worker exists: in the twin, too, the race is on the
    // job and not on the pointer.
    offered = &job;
    (void)lock;
    if (pthread_create(&helper, NULL, worker, NULL) != 0)
        return 1;
    for (int i = 0; i < JOBS; i++) {
        for (int step = 0; step < 8; step++) {
            fill_job(&job, i);
            busy(4);
        }
        hand_to(TO_WORKER);
        await_turn(TO_OWNER);
        use_value(read_job(&job));
    }
    pthread_join(helper, NULL);
    return 0;
}
