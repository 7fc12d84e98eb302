/* The code that ran. Each instruction is told once, and again if it has become another. */
#include "recorder.h"
#include "hashtable.h"
#include <string.h>

#define LONGEST_INSTRUCTION 16
#define PAGE 4096
#define PENDING 4096

struct instruction {
    uint64_t address; /* its length in the upper 16 bits */
    uint8_t bytes[LONGEST_INSTRUCTION];
};

static void *lock;
static hashtable_t known; /* an address to a number for its bytes */
static struct {
    uint8_t room[WIRE_CHUNK_HEADER_SIZE];
    struct instruction all[PENDING];
    uint32_t count;
} pending;

void
code_init(void)
{
    lock = dr_mutex_create();
    hashtable_init_ex(&known, 14, HASH_INTPTR, false, false, NULL, NULL, NULL);
}

static void
write_pending(void)
{
    if (pending.count > 0)
        output_chunk(WIRE_CHUNK_CODE, 0, pending.room, pending.count * sizeof pending.all[0]);
    pending.count = 0;
}

/* Copies what can be read of the bytes from `pc` on; how many. The code that a child of fork has
 * from its parent may have been unmapped since it ran. */
static size_t
copy(app_pc pc, uint8_t bytes[LONGEST_INSTRUCTION])
{
    size_t rest = PAGE - ((uintptr_t)pc & (PAGE - 1));
    if (dr_safe_read(pc, LONGEST_INSTRUCTION, bytes, NULL))
        return LONGEST_INSTRUCTION;
    if (rest < LONGEST_INSTRUCTION && dr_safe_read(pc, rest, bytes, NULL))
        return rest;
    return 0;
}

/* Tells an instruction unless `before` says that it is what was told last. The lock is held. */
static void *
tell(app_pc pc, void *before)
{
    uint8_t bytes[2 * LONGEST_INSTRUCTION] = { 0 }; /* the decoder may look further */
    size_t readable = copy(pc, bytes);
    app_pc next = decode_next_pc(dr_get_current_drcontext(), bytes);
    size_t length = next != NULL ? (size_t)(next - bytes) : 0;
    struct instruction instruction = { (uint64_t)pc | (uint64_t)length << 48, { 0 } };
    if (length == 0 || length >= LONGEST_INSTRUCTION || length > readable)
        return before;
    memcpy(instruction.bytes, bytes, length);
    uint64_t halves[2];
    memcpy(halves, instruction.bytes, sizeof halves);
    void *hash = (void *)(mix(halves[0] ^ mix(halves[1] + length)) | 1);
    if (hash == before)
        return before;
    if (pending.count == PENDING)
        write_pending();
    pending.all[pending.count++] = instruction;
    return hash;
}

/* Notes the instructions of a block that is about to run. */
void
note_code(instrlist_t *list)
{
    app_pc last = NULL;
    dr_mutex_lock(lock);
    for (instr_t *at = instrlist_first_app(list); at != NULL; at = instr_get_next_app(at)) {
        app_pc pc = instr_get_app_pc(at);
        if (pc == NULL || pc == last)
            continue;
        last = pc;
        void *before = hashtable_lookup(&known, pc);
        void *now = tell(pc, before);
        if (now != before)
            hashtable_add_replace(&known, pc, now);
    }
    dr_mutex_unlock(lock);
}

void
write_code(void)
{
    dr_mutex_lock(lock);
    write_pending();
    dr_mutex_unlock(lock);
}

/* A child has the code that its parent ran, but its reader knows nothing of it. */
void
code_after_fork(void)
{
    lock = dr_mutex_create();
    pending.count = 0;
    for (uint32_t i = 0; i < HASHTABLE_SIZE(known.table_bits); i++) {
        for (hash_entry_t *entry = known.table[i]; entry != NULL; entry = entry->next)
            tell(entry->key, NULL);
    }
}
