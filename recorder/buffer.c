/* A thread's buffer of entries, and the tables that inserted code uses. */
#include "recorder.h"

static size_t
memory_size(void)
{
    return FILTER_BYTES + CALLS_BYTES + FRAMES_BYTES +
        (with_values ? WORDS_BYTES + VALUES_BUFFER_BYTES : BUFFER_BYTES);
}

void
thread_memory_init(struct thread *thread)
{
    size_t size = memory_size();
    /* Fresh pages are zero, and cost nothing until they are used. */
    uint8_t *memory = dr_raw_mem_alloc(size, DR_MEMPROT_READ | DR_MEMPROT_WRITE, NULL);
    DR_ASSERT(memory != NULL);
    thread->memory = memory;
    uint64_t *slots = thread->slots;
    slots[FILTER] = (uint64_t)memory;
    memory += FILTER_BYTES;
    slots[CALLS] = (uint64_t)memory;
    memory += CALLS_BYTES;
    thread->frames = (struct frame *)memory;
    /* A frame that is never dead, so that there is always a last one. */
    thread->frames[0].stack = UINT64_MAX;
    slots[FRAMES] = (uint64_t)(thread->frames + 1);
    slots[FRAMES_LIMIT] = (uint64_t)memory + FRAMES_BYTES;
    memory += FRAMES_BYTES;
    if (with_values) {
        slots[WORDS] = (uint64_t)memory;
        memory += WORDS_BYTES;
    }
    thread->buffer = memory;
    thread->written = (struct entry *)(memory + WIRE_CHUNK_HEADER_SIZE);
    slots[POSITION] = (uint64_t)thread->written;
    slots[LIMIT] = (uint64_t)memory +
        (with_values ? VALUES_BUFFER_BYTES - VALUES_MARGIN_BYTES : BUFFER_BYTES - MARGIN_BYTES);
    slots[CONTEXT] = 0;
    slots[LOCK] = 0;
    slots[SELF] = (uint64_t)thread;
    values_init(thread);
    begin_region(thread);
}

void
thread_memory_exit(struct thread *thread)
{
    dr_raw_mem_free(thread->memory, memory_size());
}

NO_VECTORS void
append(struct thread *thread, uint64_t first, uint64_t second)
{
    struct entry *entry = (struct entry *)thread->slots[POSITION];
    entry->first = first;
    entry->second = second;
    /* Another thread may write out what is before the position. */
    __asm__ volatile("" ::: "memory");
    thread->slots[POSITION] = (uint64_t)(entry + 1);
}

NO_VECTORS void
append_value(struct thread *thread, uint32_t index, uint64_t value)
{
    append(thread, FIRST(WIRE_VALUE, index, 0), value);
}

NO_VECTORS uint64_t
draw_number(void)
{
    return __atomic_fetch_add(&shared->number, 1, __ATOMIC_SEQ_CST);
}

/* Whatever was recorded before is recorded again: the filter's tags have the region in them. */
NO_VECTORS void
begin_region(struct thread *thread)
{
    thread->slots[REGION] = mix(thread->slots[REGION] + 0x9e3779b97f4a7c15);
}

/* The next entry is a sequencer. */
NO_VECTORS void
number_next(struct thread *thread)
{
    begin_region(thread);
    thread->is_drawing = true;
    append(thread, FIRST(WIRE_NUMBER, 0, 0), draw_number());
}

/* The sequencer's entry is complete. */
NO_VECTORS void
numbered(struct thread *thread)
{
    __asm__ volatile("" ::: "memory");
    thread->is_drawing = false;
}

static struct entry *
position(struct thread *thread)
{
    struct entry *at = (struct entry *)((volatile uint64_t *)thread->slots)[POSITION];
    __asm__ volatile("" ::: "memory");
    return at;
}

/* Writes what is before `end`. The lock is held. */
static void
write_up_to(struct thread *thread, struct entry *end)
{
    if (end > thread->written)
        output_entries(thread, thread->written, end);
    thread->written = end;
}

/* Writes what is in the buffer. */
void
write_buffer(struct thread *thread)
{
    dr_mutex_lock(thread->write_lock);
    write_up_to(thread, position(thread));
    if (thread->slots == (uint64_t *)(dr_get_dr_segment_base(tls_segment) + tls_offset)) {
        thread->written = (struct entry *)(thread->buffer + WIRE_CHUNK_HEADER_SIZE);
        thread->slots[POSITION] = (uint64_t)thread->written;
    }
    dr_mutex_unlock(thread->write_lock);
}

/* How often a thread is asked for a moment between its sequencers. */
#define MOST_TRIES 1000

/* Writes what is in the buffer of a thread, which may be running, and a number before which there
 * is nothing else. Without it nobody could tell a thread that waits from one whose entries are
 * missing, and what the others did meanwhile would be worth nothing. */
void
write_buffer_up_to_now(struct thread *thread)
{
    dr_mutex_lock(thread->write_lock);
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        struct entry *from = position(thread);
        /* The number begins a region in the analysis. The thread may be going on, and what it
         * reads again then is a new read: one that waits for a word must be seen to find it
         * changed. */
        begin_region(thread);
        uint64_t number = draw_number();
        bool is_between = !thread->is_drawing;
        struct entry *to = position(thread);
        for (struct entry *at = from; at < to; at++)
            is_between = is_between && at->first >> 56 != WIRE_NUMBER;
        if (is_between) {
            uint64_t marked[WIRE_CHUNK_HEADER_SIZE / 8 + 4] = { 0 };
            struct entry *mark = (struct entry *)((uint8_t *)marked + WIRE_CHUNK_HEADER_SIZE);
            mark[0] = (struct entry){ FIRST(WIRE_NUMBER, 0, 0), number };
            mark[1] = (struct entry){ FIRST(WIRE_FENCE, 0, 0), 0 };
            write_up_to(thread, to);
            output_entries(thread, mark, mark + 2);
            break;
        }
        dr_thread_yield();
    }
    write_up_to(thread, position(thread));
    dr_mutex_unlock(thread->write_lock);
}

static bool is_ending;

void
buffers_after_fork(void)
{
    is_ending = false;
}

/* Empties a thread's buffer. Whoever first finds that the recording is to end writes what all
 * threads have: some may never fill their buffers. */
void
empty_buffer(struct thread *thread)
{
    bool ends = shared->stop != 0;
    bool is_first = ends && recording && !__atomic_exchange_n(&is_ending, true, __ATOMIC_SEQ_CST);
    if (is_first)
        for_each_thread(write_buffer_up_to_now);
    write_buffer(thread);
    if (is_first)
        output_end();
}

void
empty_if_full(struct thread *thread)
{
    if (thread->slots[POSITION] >= thread->slots[LIMIT])
        empty_buffer(thread);
}
