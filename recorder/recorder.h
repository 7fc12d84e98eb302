/* What the parts of the recorder share.
 *
 * The recorder is a client of DynamoRIO: a library that runs inside the recorded program. It adds
 * code to the program's own, which appends an entry to the thread's buffer for each access to
 * memory. What an entry looks like is in crates/recording/src/wire.rs; wire.h is made from it.
 */
#ifndef RECORDER_H
#define RECORDER_H

#include "dr_api.h"
#include "drmgr.h"
#include "drreg.h"
#include "wire.h"
#include <stdint.h>

/* Code that the inserted code calls without saving vector registers must not use any. */
#define NO_VECTORS __attribute__((target("general-regs-only"), noinline))

/* What inserted code reads and writes, in the thread's own memory. */
enum slot {
    POSITION, /* where the next entry goes */
    LIMIT,    /* when to empty the buffer */
    CONTEXT,  /* the context's number, and a hash of it in the upper half */
    REGION,   /* a number that differs from region to region */
    FILTER,   /* the table of what was recorded in this region */
    CALLS,    /* the table of known calls */
    FRAMES,   /* behind the last frame */
    FRAMES_LIMIT,
    LOCK,  /* the lock that is held for an atomic instruction, or 0 */
    SPARE, /* for whoever needs a word for a moment */
    SELF,  /* struct thread */
    WORDS,  /* the table of words that the thread has seen */
    COUNT,  /* how many instructions ran before this block */
    LENGTH, /* how many this block has */
    NEXT,   /* from this count on all registers are wanted */
    ATTEND, /* not 0: the next block begins with them, or by emptying the buffer */
    CHECK,  /* what is to be said of them, as bits of a Check entry */
    SLOTS
};

/* The tables' sizes. All are per thread, so they cost memory in programs with many threads. */
#define FILTER_BYTES (64 * 1024)
#define CALLS_BYTES (64 * 1024)
#define FRAMES_BYTES (256 * 1024)
#define BUFFER_BYTES (64 * 1024)
/* What may be appended without looking at the limit. */
#define MARGIN_BYTES 1024
/* With values, the limit is looked at only where a block begins. */
#define VALUES_BUFFER_BYTES (256 * 1024)
#define VALUES_MARGIN_BYTES (64 * 1024)
#define WORDS_BYTES (128 * 1024)

struct entry {
    uint64_t first;
    uint64_t second;
};

/* A call that has not returned. */
struct frame {
    uint64_t stack;   /* the stack pointer before the call; the lowest bit is set if a hooked
                         function was called */
    uint64_t context; /* of the caller */
};

/* A known call: what it leads to. */
struct known_call {
    uint64_t key;     /* the caller's context and the number of the call */
    uint64_t context; /* as in CONTEXT */
};

/* A hooked function that has not returned. */
struct hooked {
    uint64_t stack;
    uint64_t return_address;
    uint32_t function;
    uint32_t context;
    uint64_t argument; /* the first */
};

/* What a signal's handler interrupted. */
struct interrupted {
    uint64_t frames;
    uint64_t context;
    uint64_t stack;
    uint64_t handler; /* the stack pointer of the handler */
    uint32_t hooked;  /* how many hooked functions had not returned */
    uint32_t floor;   /* as many of them the stack pointer tells nothing about */
    bool has_own_stack;
};

#define MOST_HOOKED 256
#define MOST_INTERRUPTED 64

struct thread {
    uint64_t *slots;
    uint32_t id;
    uint32_t hooked_count;
    uint32_t interrupted_count;
    volatile bool is_drawing; /* between drawing a number and having its whole entry */
    uint64_t shortened; /* what a call of close_range had before it was shortened, or 0 */
    void *write_lock; /* held by whoever empties the buffer */
    uint8_t *memory;
    uint8_t *buffer; /* a chunk's header, then entries */
    struct entry *written; /* entries before this were written */
    struct frame *frames;
    struct thread *next, *previous;
    uint64_t registers[WIRE_REGISTERS]; /* as they were last written */
    uint64_t began; /* the count when the table of words was last empty */
    struct hooked hooked[MOST_HOOKED];
    struct interrupted interrupted[MOST_INTERRUPTED];
};

/* What all processes of a recording share: a page of a file. */
struct shared {
    volatile uint64_t number;
    uint64_t pad_1[7];
    volatile uint64_t streams; /* how many were taken */
    uint64_t pad_2[7];
    volatile uint64_t stop;     /* nothing more is to be recorded */
    volatile uint64_t refused;  /* processes that could not be recorded */
    volatile uint64_t greeted;  /* processes that are recorded */
};

extern struct shared *shared;
extern reg_id_t tls_segment;
extern uint tls_offset;
extern volatile bool recording;
extern bool with_values;

/* client.c */
opnd_t slot_operand(enum slot slot);
struct thread *this_thread(void);
void for_each_thread(void (*what)(struct thread *));

/* buffer.c */
void thread_memory_init(struct thread *thread);
void thread_memory_exit(struct thread *thread);
void append(struct thread *thread, uint64_t first, uint64_t second);
void append_value(struct thread *thread, uint32_t index, uint64_t value);
void number_next(struct thread *thread);
void numbered(struct thread *thread);
void begin_region(struct thread *thread);
void empty_if_full(struct thread *thread);
void empty_buffer(struct thread *thread);
void write_buffer(struct thread *thread);
void write_buffer_up_to_now(struct thread *thread);
void buffers_after_fork(void);
uint64_t draw_number(void);

/* output.c */
bool output_open(const char *folder);
bool output_again(void);
void output_close(void);
void output_chunk(uint32_t kind, uint32_t thread, uint8_t *chunk, size_t length);
void output_text(uint32_t kind, uint32_t thread, const char *text);
void output_entries(struct thread *thread, struct entry *from, struct entry *to);
void output_end(void);
void refuse(void);

/* dictionary.c */
void dictionary_init(void);
void dictionary_exit(void);
void dictionary_after_fork(void);
uint32_t site_of(app_pc pc);
void forget_sites(app_pc start, app_pc end);
uint32_t context_of(uint32_t caller, uint32_t site, app_pc return_address);
void write_dictionary(void);
uint64_t context_word(uint32_t context);
uint64_t mix(uint64_t value);

/* modules.c */
void modules_init(const char *folder);
void modules_exit(void);
void modules_after_fork(void);
uint32_t hooked_function(app_pc pc);

/* environment.c */
void instrument_entry(void *drcontext, instrlist_t *list, instr_t *where);

/* access.c */
void instrument_access(void *drcontext, instrlist_t *list, instr_t *where, instr_t *app);
void insert_call_on_one_path(void *drcontext, instrlist_t *list, instr_t *where, void *callee,
                             opnd_t argument);
void insert_check(void *drcontext, instrlist_t *list, instr_t *where, reg_id_t scratch);
bool insert_address(void *drcontext, instrlist_t *list, instr_t *where, opnd_t memory,
                    reg_id_t to);

/* values.c */
void values_init(struct thread *thread);
void values_begin(struct thread *thread);
void values_shorten(void *drcontext, instrlist_t *list);
void instrument_block(void *drcontext, instrlist_t *list, instr_t *where);
void instrument_values(void *drcontext, instrlist_t *list, instr_t *where);
void values_at_system_call(void *drcontext, struct thread *thread);
void values_at_signal(struct thread *thread, const dr_mcontext_t *interrupted);
void values_at_sequencer(struct thread *thread);
bool is_repeated(int opcode);
uint64_t compared(int opcode, const dr_mcontext_t *mc, uint64_t count, uint64_t size, int64_t step);

/* code.c */
void code_init(void);
void code_after_fork(void);
void note_code(instrlist_t *list);
void write_code(void);

/* masked.c */
bool is_masked(instr_t *app);
void instrument_masked(void *drcontext, instrlist_t *list, instr_t *where);
void record_access(uint32_t kind, uint32_t site, uint64_t address, uint64_t size);

/* sequencer.c */
bool is_atomic(instr_t *instr);
void instrument_atomic(void *drcontext, instrlist_t *list, instr_t *where);
void instrument_fence(void *drcontext, instrlist_t *list, instr_t *where);
void release_lock(struct thread *thread);
void sequencer_after_fork(void);
bool before_system_call(void *drcontext, int number);
void after_system_call(void *drcontext, int number);
void thread_starts(struct thread *thread, uint64_t tls, uint64_t stack);
void thread_ends(struct thread *thread);

/* calls.c */
void instrument_call(void *drcontext, instrlist_t *list, instr_t *where);
void instrument_return(void *drcontext, instrlist_t *list, instr_t *where);
void instrument_hook(void *drcontext, instrlist_t *list, instr_t *where, uint32_t function);
void handler_starts(struct thread *thread, const dr_kernel_xfer_info_t *info);
void handler_returns(struct thread *thread, const dr_kernel_xfer_info_t *info);

#define FIRST(kind, size, number)                                                                 \
    ((uint64_t)(kind) << 56 | (uint64_t)(size) << 48 | ((uint64_t)(number) & 0xffffffffffff))

/* A system call of ours, which DynamoRIO does not see. */
static inline long
system_call(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

/* The second word of most entries. */
static inline uint64_t
place(uint32_t site, uint32_t context)
{
    return (uint64_t)context << 32 | site;
}

static inline uint32_t
context_number(struct thread *thread)
{
    return (uint32_t)thread->slots[CONTEXT];
}

#endif
