// Under one lock a message is freed and the next one allocated, most often at
// the same address, while another thread reads the current one under the lock.
// The reader never writes, so that the twin's stale reads break nothing.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: compose skim
//@ twin-expect: what=* functions=compose,skim
#include "../lib/crew.h"

struct message {
    long sender;
    long words[6];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct message *current;

static void enter(void)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
#else
    (void)lock;
#endif
}

static void leave(void)
{
#ifndef TWIN
    pthread_mutex_unlock(&lock);
#endif
}

KEEP static void compose(struct message *m, long word)
{
    m->words[3] = word;
}

KEEP static long skim(const struct message *m)
{
    return m->words[3];
}

static void poster(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        enter();
        free(current);
        current = malloc(sizeof *current);
        if (current == NULL)
            exit(1);
        compose(current, i);
        leave();
        busy(8);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        enter();
        use_value(skim(current));
        leave();
        busy(8);
    }
}

int main(void)
{
    current = calloc(1, sizeof *current);
    if (current == NULL)
        return 1;
    return run_pair(poster, reader);
}
