// A sequence lock whose reader copies the record by memcpy and throws the copy away if the
// writer was at work. No torn value is used, but in C the copies race: they would have to be
// made of relaxed atomics (never/seqlock_relaxed.c).
//@ build: O2
//@ full: O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ expect: what=shared.record functions=~publish,~look
#include "../lib/crew.h"
#include <stdatomic.h>
#include <string.h>

struct record {
    long fields[6];
};

static struct {
    atomic_uint sequence;
    struct record record;
} shared;

KEEP static void publish(const struct record *next)
{
    unsigned now = atomic_load_explicit(&shared.sequence, memory_order_relaxed);
    atomic_store_explicit(&shared.sequence, now + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy(&shared.record, next, sizeof *next);
    atomic_store_explicit(&shared.sequence, now + 2, memory_order_release);
}

KEEP static void look(struct record *copy)
{
    unsigned before, after, turns = 0;
    do {
        relax(turns++);
        before = atomic_load_explicit(&shared.sequence, memory_order_acquire);
        memcpy(copy, &shared.record, sizeof *copy);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&shared.sequence, memory_order_relaxed);
    } while ((before & 1) || before != after);
}

static void writer(void)
{
    struct record mine = {{0}};
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned k = 0; k < 6; k++)
            mine.fields[k] = i;
        publish(&mine);
        busy(40);
    }
}

static void reader(void)
{
    struct record copy;
    for (unsigned i = 0; i < ROUNDS; i++) {
        look(&copy);
        if (copy.fields[0] != copy.fields[5])
            abort();
        busy(4);
    }
}

int main(void)
{
    return run_pair(writer, reader);
}
