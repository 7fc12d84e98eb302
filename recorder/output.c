/* The stream of chunks: a pipe of this process's own that `redhanded record` reads. */
#include "recorder.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

volatile bool recording;
static file_t stream = INVALID_FILE;
static void *output_lock;
static char folder[MAXIMUM_PATH];

/* Writes everything. If nobody reads the pipe any more, the kernel sends SIGPIPE, which the
 * program must not see: it is blocked meanwhile, and taken away. */
static bool
write_all(const uint8_t *bytes, size_t length)
{
    uint64_t pipe_signal = 1ull << (SIGPIPE - 1), before = 0;
    bool good = true;
    system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&pipe_signal, (long)&before, 8);
    while (length > 0) {
        long done = system_call(SYS_write, stream, (long)bytes, (long)length, 0);
        if (done == -EINTR || done == -EAGAIN)
            continue;
        if (done <= 0) {
            good = false;
            if (done == -EPIPE && (before & pipe_signal) == 0) {
                struct timespec {
                    long seconds, nanoseconds;
                } none = { 0, 0 };
                system_call(SYS_rt_sigtimedwait, (long)&pipe_signal, 0, (long)&none, 8);
            }
            break;
        }
        bytes += done;
        length -= (size_t)done;
    }
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
    return good;
}

/* Writes a chunk that has room for its header. The lock is held. */
static void
write_chunk(uint32_t kind, uint32_t thread, uint8_t *chunk, size_t length)
{
    uint32_t sizes[2] = { thread, (uint32_t)length };
    if (!recording)
        return;
    memset(chunk, 0, WIRE_CHUNK_HEADER_SIZE);
    memcpy(chunk, WIRE_CHUNK_MAGIC, 4);
    chunk[4] = (uint8_t)kind;
    memcpy(chunk + 8, sizes, sizeof sizes);
    if (!write_all(chunk, WIRE_CHUNK_HEADER_SIZE + length)) {
        /* Nobody listens. The program goes on. */
        recording = false;
    }
}

void
output_chunk(uint32_t kind, uint32_t thread, uint8_t *chunk, size_t length)
{
    dr_mutex_lock(output_lock);
    write_chunk(kind, thread, chunk, length);
    dr_mutex_unlock(output_lock);
}

void
output_text(uint32_t kind, uint32_t thread, const char *text)
{
    size_t length = strlen(text);
    uint8_t *chunk = dr_global_alloc(WIRE_CHUNK_HEADER_SIZE + length);
    memcpy(chunk + WIRE_CHUNK_HEADER_SIZE, text, length);
    output_chunk(kind, thread, chunk, length);
    dr_global_free(chunk, WIRE_CHUNK_HEADER_SIZE + length);
}

void
output_entries(struct thread *thread, struct entry *from, struct entry *to)
{
    if (!recording)
        return;
    /* Sites and contexts come before what uses them. */
    write_dictionary();
    if (with_values)
        write_code();
    /* What is before the entries was written already, or is room for a header. */
    output_chunk(WIRE_CHUNK_ENTRIES, thread->id, (uint8_t *)from - WIRE_CHUNK_HEADER_SIZE,
                 (size_t)((uint8_t *)to - (uint8_t *)from));
}

/* Nothing more is written. */
void
output_end(void)
{
    recording = false;
}

/* This process cannot be recorded; whoever made the recording says so. */
void
refuse(void)
{
    __atomic_fetch_add(&shared->refused, 1, __ATOMIC_SEQ_CST);
    recording = false;
}

static bool
open_stream(void)
{
    char path[MAXIMUM_PATH];
    dr_snprintf(path, sizeof path, "%s/shared", folder);
    if (!dr_file_exists(path)) {
        /* A process in another root folder, of another user, or without access to files. */
        refuse();
        return false;
    }
    uint64_t number = __atomic_fetch_add(&shared->streams, 1, __ATOMIC_SEQ_CST);
    if (number >= WIRE_MOST_PROCESSES) {
        /* Its pipe will never be made. */
        refuse();
        return false;
    }
    dr_snprintf(path, sizeof path, "%s/stream.%llu", folder, (unsigned long long)number);
    path[sizeof path - 1] = 0;
    /* The pipes are made in advance. In a burst of forks they may come a moment late. */
    for (int tries = 0; tries < 400; tries++) {
        /* Without a reader an open for writing would wait for one. A pipe that is open for reading
         * too, as DynamoRIO does it unless told otherwise, would never lack one. */
        long probe = system_call(SYS_open, (long)path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0, 0);
        if (probe >= 0) {
            stream = dr_open_file(path, DR_FILE_WRITE_ONLY);
            system_call(SYS_close, probe, 0, 0, 0);
            break;
        }
        if (probe == -ENXIO)
            break;
        dr_sleep(5);
    }
    recording = stream != INVALID_FILE;
    if (!recording)
        refuse();
    return recording;
}

bool
output_open(const char *in)
{
    char path[MAXIMUM_PATH];
    size_t size = dr_page_size();
    output_lock = dr_mutex_create();
    strncpy(folder, in, sizeof folder - 1);
    dr_snprintf(path, sizeof path, "%s/shared", folder);
    file_t file = dr_open_file(path, DR_FILE_READ | DR_FILE_WRITE_APPEND);
    if (file == INVALID_FILE)
        return false;
    shared = dr_map_file(file, &size, 0, NULL, DR_MEMPROT_READ | DR_MEMPROT_WRITE, 0);
    dr_close_file(file);
    return shared != NULL && open_stream();
}

/* A forked child writes to a pipe of its own. */
bool
output_again(void)
{
    output_lock = dr_mutex_create();
    if (stream != INVALID_FILE)
        dr_close_file(stream);
    stream = INVALID_FILE;
    return open_stream();
}

void
output_close(void)
{
    if (stream != INVALID_FILE)
        dr_close_file(stream);
    stream = INVALID_FILE;
    recording = false;
}
