/* Values: what a thread needs to be replayed alone.
 *
 * A table has words that the thread has seen, as it would expect them: what it last read there, or
 * wrote. A word that is read and is not in the table as it is in memory is written to the log. So
 * whoever runs the same instructions, and puts the logged words into memory before the
 * instructions that they belong to, has in memory whatever the thread read. Nothing else has to be
 * known of what other threads and the kernel write.
 *
 * Instructions are counted, block by block. A block of which only a part ran was left by a signal.
 */
#include "recorder.h"
#include <string.h>

#define INSERT(instr) instrlist_meta_preinsert(list, where, (instr))
#define REG(reg) opnd_create_reg(reg)
#define LOW(reg) opnd_create_reg(reg_resize_to_opsz((reg), OPSZ_4))
#define AT(reg, offset) OPND_CREATE_MEM64((reg), (offset))

/* After so many instructions without one all registers are written, so that a replay which went
 * astray is noticed. */
#define CHECK_AFTER 100000

/* So many instructions after the table was last emptied it is emptied again: a replay can begin
 * there. */
#define FRESH_AFTER (1 << 20)

/* A word and what the thread expects in it. */
struct word {
    uint64_t address;
    uint64_t value;
};

static struct word *
word_at(struct thread *thread, uint64_t address)
{
    return (struct word *)(thread->slots[WORDS] + (address & 0xfff8) * 2);
}

static void
forget_all(struct thread *thread)
{
    memset((void *)thread->slots[WORDS], 0, WORDS_BYTES);
}

void
values_init(struct thread *thread)
{
    thread->slots[COUNT] = 0;
    thread->slots[LENGTH] = 0;
    thread->slots[NEXT] = 0;
    thread->slots[ATTEND] = 1;
    thread->slots[CHECK] = WIRE_CHECK_FRESH;
}

/* The thread begins in a new process: nobody knows there what it did before. */
void
values_begin(struct thread *thread)
{
    values_init(thread);
}

/* Logs a word unless the thread expects what is in it. */
static NO_VECTORS void
seen(struct thread *thread, uint64_t address, uint64_t value, uint64_t count)
{
    struct word *known = word_at(thread, address);
    if (known->address == address && known->value == value)
        return;
    *known = (struct word){ address, value };
    append(thread, FIRST(WIRE_AT, 0, 0), count);
    append(thread, FIRST(WIRE_LOAD, 0, address), value);
}

/* A read that is long, or goes over the end of a word. It was tried already. */
static NO_VECTORS void
read_words(uint64_t address, uint64_t size, uint64_t index)
{
    struct thread *thread = this_thread();
    uint64_t count = thread->slots[COUNT] + index;
    for (uint64_t at = address & ~7ull; at < address + size; at += 8)
        seen(thread, at, *(volatile uint64_t *)at, count);
}

/* The same if not all of it may be readable. */
static void
read_readable(struct thread *thread, uint64_t address, uint64_t size, uint64_t count)
{
    for (uint64_t at = address & ~7ull; at < address + size; at += 8) {
        uint64_t value;
        if (dr_safe_read((void *)at, sizeof value, &value, NULL))
            seen(thread, at, value, count);
        empty_if_full(thread);
    }
}

static void
read_masked(uint64_t address, uint64_t size, uint64_t index)
{
    struct thread *thread = this_thread();
    read_readable(thread, address, size, thread->slots[COUNT] + index);
}

static NO_VECTORS void
forget(uint64_t address, uint64_t size)
{
    struct thread *thread = this_thread();
    for (uint64_t at = address & ~7ull; at < address + size; at += 8)
        word_at(thread, at)->address = 0;
}

/* A repeated string instruction. */
static void
repeated(uint64_t opcode, uint64_t size, uint64_t index)
{
    struct thread *thread = this_thread();
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_INTEGER | DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    int64_t step = (mc.xflags & 1 << 10) != 0 ? -(int64_t)size : (int64_t)size;
    uint64_t counted = thread->slots[COUNT] + index, count = mc.xcx;
    bool compares = opcode != OP_rep_movs && opcode != OP_rep_stos && opcode != OP_rep_lods;
    bool scans = opcode == OP_rep_scas || opcode == OP_repne_scas;
    if (compares)
        count = compared((int)opcode, &mc, count, size, step);
    if (count == 0)
        return;
    uint64_t length = count * size, back = step < 0 ? length - size : 0;
    if (opcode != OP_rep_stos && !scans)
        read_readable(thread, mc.xsi - back, length, counted);
    if (compares)
        read_readable(thread, mc.xdi - back, length, counted);
    if (opcode == OP_rep_movs || opcode == OP_rep_stos) {
        if (length > WORDS_BYTES)
            forget_all(thread);
        else
            forget(mc.xdi - back, length);
    }
}

/* All registers, in the order in which Register entries number them. */
static void
collect(uint64_t *to, const dr_mcontext_t *mc, bool vectors)
{
    uint64_t general[] = { mc->xax, mc->xcx, mc->xdx, mc->xbx, mc->xsp, mc->xbp, mc->xsi, mc->xdi,
                           mc->r8,  mc->r9,  mc->r10, mc->r11, mc->r12, mc->r13, mc->r14, mc->r15,
                           mc->xflags };
    memcpy(to, general, sizeof general);
    if (!vectors)
        return;
    dr_mcontext_t none = { .size = sizeof none, .flags = DR_MC_INTEGER };
    reg_id_t segments[] = { DR_SEG_FS, DR_SEG_GS };
    for (int i = 0; i < 2; i++) {
        opnd_t base = opnd_create_far_base_disp(segments[i], DR_REG_NULL, DR_REG_NULL, 0, 0, OPSZ_8);
        to[WIRE_REGISTER_FS + i] = (uint64_t)opnd_compute_address(base, &none);
    }
    uint8_t saved[512] __attribute__((aligned(16)));
    __asm__ volatile("fxsave %0" : "=m"(saved));
    uint32_t mxcsr;
    memcpy(&mxcsr, saved + 24, sizeof mxcsr);
    to[WIRE_REGISTER_MXCSR] = mxcsr;
    /* Control and status words, and the tags. */
    to[WIRE_REGISTER_X87] = 0;
    memcpy(&to[WIRE_REGISTER_X87], saved, 5);
    for (int i = 0; i < 8; i++) {
        to[WIRE_REGISTER_ST + 2 * i] = to[WIRE_REGISTER_ST + 2 * i + 1] = 0;
        memcpy(&to[WIRE_REGISTER_ST + 2 * i], saved + 32 + 16 * i, 10);
    }
    /* Beyond these DynamoRIO has only what the processor has. */
    if (proc_avx512_enabled()) {
        memcpy(&to[WIRE_REGISTER_MASK], mc->opmask, 8 * sizeof to[0]);
        memcpy(&to[WIRE_REGISTER_VECTOR], mc->simd, 32 * 64);
    } else {
        for (int i = 0; i < 16; i++)
            memcpy(&to[WIRE_REGISTER_VECTOR + i * 8], &mc->simd[i], 32);
    }
}

/* Writes a Check: the registers that are others than when they were last written. */
static void
write_check(struct thread *thread, uint64_t flags, uint64_t count, uint64_t length,
            const dr_mcontext_t *mc, bool vectors)
{
    uint64_t now[WIRE_REGISTERS];
    bool fresh = (flags & WIRE_CHECK_FRESH) != 0;
    memcpy(now, thread->registers, sizeof now);
    collect(now, mc, vectors);
    if (fresh) {
        memset(thread->registers, 0, sizeof thread->registers);
        forget_all(thread);
        thread->began = count;
    }
    append(thread, FIRST(WIRE_CHECK, flags, length), count);
    append_value(thread, 0, (uint64_t)mc->pc);
    for (uint32_t i = 0; i < WIRE_REGISTERS; i++) {
        if (now[i] != thread->registers[i])
            append(thread, FIRST(WIRE_REGISTER, 0, i), now[i]);
    }
    memcpy(thread->registers, now, sizeof now);
}

/* Before the first instruction of a block, if the buffer is full or all registers are wanted. */
static void
attend(uint64_t pc)
{
    struct thread *thread = this_thread();
    uint64_t *slots = thread->slots;
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_ALL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    mc.pc = (app_pc)pc;
    if (slots[POSITION] >= slots[LIMIT]) {
        /* Nothing of the block was done, so it can begin anew, and a signal that waits is
         * delivered. */
        empty_buffer(thread);
        dr_redirect_execution(&mc);
    }
    uint64_t flags = slots[CHECK], count = slots[COUNT] + slots[LENGTH];
    if (count - thread->began >= FRESH_AFTER)
        flags |= WIRE_CHECK_FRESH;
    slots[COUNT] = count;
    slots[LENGTH] = slots[CHECK] = slots[ATTEND] = 0;
    slots[NEXT] = count + CHECK_AFTER;
    write_check(thread, flags, count, 0, &mc, true);
}

/* Before an instruction that is not replayed. Its block ends behind it. */
static void
opaque(uint64_t pc, uint64_t index, uint64_t flags)
{
    struct thread *thread = this_thread();
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_ALL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    mc.pc = (app_pc)pc;
    write_check(thread, flags, thread->slots[COUNT] + index, 0, &mc, true);
    thread->slots[ATTEND] = 1;
    thread->slots[CHECK] |= WIRE_CHECK_OPAQUE;
    forget_all(thread);
}

/* The system call is the last instruction of its block. */
void
values_at_system_call(void *drcontext, struct thread *thread)
{
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_ALL };
    dr_get_mcontext(drcontext, &mc);
    uint64_t length = thread->slots[LENGTH];
    uint64_t before = length > 0 ? length - 1 : 0;
    /* Where it is follows from the count. */
    mc.pc = NULL;
    write_check(thread, 0, thread->slots[COUNT] + before, 0, &mc, true);
    thread->slots[ATTEND] = 1;
    thread->slots[CHECK] |= WIRE_CHECK_OPAQUE;
}

/* What a signal interrupts: the last block, which may have run to its end, or not. */
void
values_at_signal(struct thread *thread, const dr_mcontext_t *interrupted)
{
    /* After a system call nothing has run. */
    if (interrupted != NULL && thread->slots[CHECK] == 0) {
        write_check(thread, WIRE_CHECK_STOPPED, thread->slots[COUNT],
                    thread->slots[LENGTH], interrupted, false);
    }
    thread->slots[ATTEND] = 1;
    thread->slots[CHECK] |= WIRE_CHECK_OPAQUE;
}

/* The block goes on; the next one begins with all registers. */
NO_VECTORS void
values_at_sequencer(struct thread *thread)
{
    thread->slots[ATTEND] = 1;
}

static bool
is_bit_string(instr_t *app)
{
    int opcode = instr_get_opcode(app);
    if (opcode != OP_bt && opcode != OP_bts && opcode != OP_btr && opcode != OP_btc)
        return false;
    bool memory = instr_reads_memory(app), has_register = false;
    for (int i = 0; i < instr_num_srcs(app); i++)
        has_register = has_register || opnd_is_reg(instr_get_src(app, i));
    return memory && has_register;
}

/* Whether an instruction has results that do not follow from registers and memory, or is none
 * that a replay can run. */
static bool
is_opaque(instr_t *app)
{
    switch (instr_get_opcode(app)) {
    case OP_cpuid:
    case OP_rdtsc:
    case OP_rdtscp:
    case OP_rdpmc:
    case OP_rdrand:
    case OP_rdseed:
    case OP_xgetbv:
    case OP_fxsave32:
    case OP_fxsave64:
    case OP_fxrstor32:
    case OP_fxrstor64:
    case OP_xsave32:
    case OP_xsave64:
    case OP_xsavec32:
    case OP_xsavec64:
    case OP_xsaveopt32:
    case OP_xsaveopt64:
    case OP_xrstor32:
    case OP_xrstor64:
    case OP_fnsave:
    case OP_frstor:
    case OP_fldenv:
    case OP_fnstenv:
    case OP_enter:
    case OP_xlat:
    case OP_maskmovq:
    case OP_maskmovdqu:
    case OP_vmaskmovdqu:
    case OP_rdfsbase:
    case OP_rdgsbase:
    case OP_wrfsbase:
    case OP_wrgsbase:
    case OP_rdpkru:
    case OP_wrpkru:
    case OP_mov_seg: return true;
    default: return is_bit_string(app);
    }
}

/* A block ends behind what is not replayed, so that the next one begins with what it did. */
void
values_shorten(void *drcontext, instrlist_t *list)
{
    for (instr_t *at = instrlist_first(list); at != NULL; at = instr_get_next(at)) {
        if (!instr_is_app(at) || !is_opaque(at))
            continue;
        for (instr_t *next; (next = instr_get_next(at)) != NULL;) {
            instrlist_remove(list, next);
            instr_destroy(drcontext, next);
        }
        return;
    }
}

/* How many instructions of the program's are before this one, or in all. What was expanded counts
 * once. */
static uint32_t
index_of(instrlist_t *list, instr_t *where)
{
    uint32_t index = 0;
    app_pc last = NULL;
    for (instr_t *at = instrlist_first_app(list); at != NULL; at = instr_get_next_app(at)) {
        app_pc pc = instr_get_app_pc(at);
        if (pc != NULL && pc != last) {
            index++;
            last = pc;
        }
        if (at == where)
            return index - 1;
    }
    return index;
}

/* Where a block begins: the registers if wanted, and its length. Before that no flag is touched:
 * they are written if they are wanted, also those that the program does not use any more. */
void
instrument_block(void *drcontext, instrlist_t *list, instr_t *where)
{
    reg_id_t counter, scratch;
    drvector_t allowed;
    if (where != instrlist_first_app(list))
        return;
    drreg_init_and_fill_vector(&allowed, false);
    drreg_set_vector_entry(&allowed, DR_REG_XCX, true);
    bool reserved =
        drreg_reserve_register(drcontext, list, where, &allowed, &counter) == DRREG_SUCCESS;
    drvector_delete(&allowed);
    if (!reserved) {
        DR_ASSERT(false);
        return;
    }
    instr_t *nothing = INSTR_CREATE_label(drcontext);
    instr_t *something = INSTR_CREATE_label(drcontext);
    instr_t *attended = INSTR_CREATE_label(drcontext);
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(counter), slot_operand(ATTEND)));
    INSERT(INSTR_CREATE_jecxz(drcontext, opnd_create_instr(nothing)));
    INSERT(INSTR_CREATE_jmp(drcontext, opnd_create_instr(something)));
    INSERT(nothing);
    INSERT(INSTR_CREATE_jmp(drcontext, opnd_create_instr(attended)));
    INSERT(something);
    insert_call_on_one_path(drcontext, list, where, (void *)attend,
                            OPND_CREATE_INTPTR(instr_get_app_pc(where)));
    INSERT(attended);
    if (drreg_reserve_aflags(drcontext, list, where) != DRREG_SUCCESS ||
        drreg_reserve_register(drcontext, list, where, NULL, &scratch) != DRREG_SUCCESS) {
        DR_ASSERT(false);
        return;
    }
    instr_t *early = INSTR_CREATE_label(drcontext);
    instr_t *room = INSTR_CREATE_label(drcontext);
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(scratch), slot_operand(COUNT)));
    INSERT(INSTR_CREATE_add(drcontext, REG(scratch), slot_operand(LENGTH)));
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(COUNT), REG(scratch)));
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(LENGTH),
                               OPND_CREATE_INT32((int)index_of(list, NULL))));
    INSERT(INSTR_CREATE_cmp(drcontext, REG(scratch), slot_operand(NEXT)));
    INSERT(INSTR_CREATE_jcc(drcontext, OP_jb, opnd_create_instr(early)));
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(ATTEND), OPND_CREATE_INT32(1)));
    INSERT(early);
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(scratch), slot_operand(POSITION)));
    INSERT(INSTR_CREATE_cmp(drcontext, REG(scratch), slot_operand(LIMIT)));
    INSERT(INSTR_CREATE_jcc(drcontext, OP_jb, opnd_create_instr(room)));
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(ATTEND), OPND_CREATE_INT32(1)));
    INSERT(room);
    drreg_unreserve_register(drcontext, list, where, scratch);
    drreg_unreserve_aflags(drcontext, list, where);
    drreg_unreserve_register(drcontext, list, where, counter);
}

/* Loads the address of a memory operand of any segment. */
static bool
insert_any_address(void *drcontext, instrlist_t *list, instr_t *where, opnd_t memory, reg_id_t to,
                   reg_id_t scratch)
{
    if (!opnd_is_base_disp(memory))
        return insert_address(drcontext, list, where, memory, to);
    reg_id_t segment = opnd_get_segment(memory);
    if (opnd_get_index(memory) == DR_REG_AL ||
        drreg_restore_app_values(drcontext, list, where, memory, NULL) != DRREG_SUCCESS)
        return false;
    opnd_t near = opnd_create_base_disp(opnd_get_base(memory), opnd_get_index(memory),
                                        opnd_get_scale(memory), opnd_get_disp(memory), OPSZ_lea);
    INSERT(INSTR_CREATE_lea(drcontext, REG(to), near));
    if (segment == DR_SEG_FS || segment == DR_SEG_GS) {
        if (!dr_insert_get_seg_base(drcontext, list, where, segment, scratch))
            return false;
        INSERT(INSTR_CREATE_lea(drcontext, REG(to),
                                opnd_create_base_disp(to, scratch, 1, 0, OPSZ_lea)));
    }
    return true;
}

/* The registers that inserted code has. */
struct scratch {
    reg_id_t address, word, slot;
};

/* Loads where the table has the word at `from`, plus an offset. */
static void
insert_slot(void *drcontext, instrlist_t *list, instr_t *where, reg_id_t from, int offset,
            reg_id_t to)
{
    INSERT(INSTR_CREATE_lea(drcontext, REG(to),
                            opnd_create_base_disp(from, DR_REG_NULL, 0, offset, OPSZ_lea)));
    INSERT(INSTR_CREATE_and(drcontext, LOW(to), OPND_CREATE_INT32(0xfff8)));
    INSERT(INSTR_CREATE_add(drcontext, LOW(to), LOW(to)));
    INSERT(INSTR_CREATE_add(drcontext, REG(to), slot_operand(WORDS)));
}

/* Jumps if the access goes over the end of a word. */
static void
insert_crossing(void *drcontext, instrlist_t *list, instr_t *where, struct scratch with, uint size,
                instr_t *crosses)
{
    if (size == 1)
        return;
    INSERT(INSTR_CREATE_mov_ld(drcontext, LOW(with.slot), LOW(with.address)));
    INSERT(INSTR_CREATE_and(drcontext, LOW(with.slot), OPND_CREATE_INT32(7)));
    INSERT(INSTR_CREATE_cmp(drcontext, LOW(with.slot), OPND_CREATE_INT32((int)(8 - size))));
    INSERT(INSTR_CREATE_jcc(drcontext, OP_ja, opnd_create_instr(crosses)));
}

/* A byte is read as the instruction itself would read it, so that a fault is its own. */
static void
insert_trial(void *drcontext, instrlist_t *list, instr_t *where, reg_id_t address, int offset,
             reg_id_t to)
{
    instr_t *trial =
        INSTR_CREATE_movzx(drcontext, LOW(to), OPND_CREATE_MEM8(address, offset));
    INSERT(INSTR_XL8(trial, instr_get_app_pc(where)));
}

static void
insert_read(void *drcontext, instrlist_t *list, instr_t *where, struct scratch with, uint size,
            uint32_t index)
{
    instr_t *done = INSTR_CREATE_label(drcontext);
    instr_t *slow = INSTR_CREATE_label(drcontext);
    instr_t *missed = INSTR_CREATE_label(drcontext);
    insert_trial(drcontext, list, where, with.address, 0, with.slot);
    if (size > 1)
        insert_trial(drcontext, list, where, with.address, (int)size - 1, with.slot);
    if (size <= 8) {
        insert_crossing(drcontext, list, where, with, size, slow);
        INSERT(INSTR_CREATE_mov_ld(drcontext, REG(with.word), REG(with.address)));
        INSERT(INSTR_CREATE_and(drcontext, REG(with.word), OPND_CREATE_INT32(-8)));
        insert_slot(drcontext, list, where, with.address, 0, with.slot);
        instr_t *load = INSTR_CREATE_mov_ld(drcontext, REG(with.address), AT(with.word, 0));
        INSERT(INSTR_XL8(load, instr_get_app_pc(where)));
        INSERT(INSTR_CREATE_cmp(drcontext, REG(with.word), AT(with.slot, 0)));
        INSERT(INSTR_CREATE_jcc(drcontext, OP_jne, opnd_create_instr(missed)));
        INSERT(INSTR_CREATE_cmp(drcontext, REG(with.address), AT(with.slot, 8)));
        INSERT(INSTR_CREATE_jcc(drcontext, OP_je, opnd_create_instr(done)));
        INSERT(missed);
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(with.slot, 0), REG(with.word)));
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(with.slot, 8), REG(with.address)));
        INSERT(INSTR_CREATE_mov_ld(drcontext, REG(with.slot), slot_operand(POSITION)));
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(with.slot, 0), OPND_CREATE_INT32(0)));
        INSERT(INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM8(with.slot, 7),
                                   OPND_CREATE_INT8(WIRE_AT)));
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(with.slot, 16), REG(with.word)));
        INSERT(INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM8(with.slot, 23),
                                   OPND_CREATE_INT8(WIRE_LOAD)));
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(with.slot, 24), REG(with.address)));
        INSERT(INSTR_CREATE_mov_ld(drcontext, REG(with.word), slot_operand(COUNT)));
        INSERT(INSTR_CREATE_lea(drcontext, REG(with.word),
                                opnd_create_base_disp(with.word, DR_REG_NULL, 0, (int)index,
                                                      OPSZ_lea)));
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(with.slot, 8), REG(with.word)));
        INSERT(INSTR_CREATE_lea(drcontext, REG(with.slot),
                                opnd_create_base_disp(with.slot, DR_REG_NULL, 0, 32, OPSZ_lea)));
        INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(POSITION), REG(with.slot)));
        INSERT(INSTR_CREATE_jmp(drcontext, opnd_create_instr(done)));
        INSERT(slow);
    }
    dr_insert_clean_call_ex(drcontext, list, where, (void *)read_words,
                            DR_CLEANCALL_NOSAVE_XMM | DR_CLEANCALL_ALWAYS_OUT_OF_LINE, 3,
                            REG(with.address), OPND_CREATE_INT32((int)size),
                            OPND_CREATE_INT32((int)index));
    INSERT(done);
}

/* Forgets the words that an instruction writes. */
static void
insert_forgetting(void *drcontext, instrlist_t *list, instr_t *where, struct scratch with,
                  uint size)
{
    if (size > 64) {
        dr_insert_clean_call_ex(drcontext, list, where, (void *)forget,
                                DR_CLEANCALL_NOSAVE_XMM | DR_CLEANCALL_ALWAYS_OUT_OF_LINE, 2,
                                REG(with.address), OPND_CREATE_INT32((int)size));
        return;
    }
    for (uint offset = 0;; offset = offset + 8 < size - 1 ? offset + 8 : size - 1) {
        insert_slot(drcontext, list, where, with.address, (int)offset, with.slot);
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(with.slot, 0), OPND_CREATE_INT32(0)));
        if (offset == size - 1)
            break;
    }
}

/* Whether an instruction only stores what a register or the instruction itself has. */
static bool
is_plain_store(instr_t *app, uint size)
{
    int opcode = instr_get_opcode(app);
    if (opcode == OP_call || opcode == OP_call_ind)
        return size == 8;
    if (size > 8 || (opcode != OP_mov_st && opcode != OP_push && opcode != OP_push_imm))
        return false;
    opnd_t source = instr_get_src(app, 0);
    if (opnd_is_immed_int(source))
        return true;
    if (!opnd_is_reg(source) || !reg_is_gpr(opnd_get_reg(source)))
        return false;
    bool is_high = opnd_get_reg(source) >= DR_REG_AH && opnd_get_reg(source) <= DR_REG_BH;
    return !is_high && opnd_size_in_bytes(opnd_get_size(source)) == size;
}

/* Loads what a plain store will write. */
static void
insert_stored(void *drcontext, instrlist_t *list, instr_t *where, reg_id_t to)
{
    int opcode = instr_get_opcode(where);
    opnd_t source = instr_get_src(where, 0);
    ptr_int_t known;
    if (opcode == OP_call || opcode == OP_call_ind) {
        known = (ptr_int_t)decode_next_pc(drcontext, instr_get_app_pc(where));
    } else if (opnd_is_immed_int(source)) {
        known = opnd_get_immed_int(source);
    } else {
        /* drreg gives a register that it has saved back to the register itself. */
        reg_id_t whole = reg_to_pointer_sized(opnd_get_reg(source));
        drreg_status_t got = drreg_get_app_value(drcontext, list, where, whole, whole);
        DR_ASSERT(got == DRREG_SUCCESS);
        INSERT(INSTR_CREATE_mov_ld(drcontext, REG(to), REG(whole)));
        return;
    }
    instrlist_insert_mov_immed_ptrsz(drcontext, known, REG(to), list, where, NULL, NULL);
}

/* What a plain store writes is known beforehand. If the table has the word, it has it as it will
 * be. */
static void
insert_store(void *drcontext, instrlist_t *list, instr_t *where, struct scratch with, uint size)
{
    instr_t *done = INSTR_CREATE_label(drcontext);
    instr_t *crosses = INSTR_CREATE_label(drcontext);
    insert_crossing(drcontext, list, where, with, size, crosses);
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(with.word), REG(with.address)));
    INSERT(INSTR_CREATE_and(drcontext, REG(with.word), OPND_CREATE_INT32(-8)));
    insert_slot(drcontext, list, where, with.address, 0, with.slot);
    INSERT(INSTR_CREATE_cmp(drcontext, REG(with.word), AT(with.slot, 0)));
    /* On all paths, because the register may be the program's own then. It changes no flags. */
    insert_stored(drcontext, list, where, with.word);
    INSERT(INSTR_CREATE_jcc(drcontext, OP_jne, opnd_create_instr(done)));
    INSERT(INSTR_CREATE_and(drcontext, LOW(with.address), OPND_CREATE_INT32(7)));
    INSERT(INSTR_CREATE_add(drcontext, REG(with.slot), REG(with.address)));
    opnd_t part = opnd_create_base_disp(with.slot, DR_REG_NULL, 0, 8, opnd_size_from_bytes(size));
    reg_id_t value = reg_resize_to_opsz(with.word, opnd_size_from_bytes(size));
    INSERT(INSTR_CREATE_mov_st(drcontext, part, REG(value)));
    if (size > 1) {
        INSERT(INSTR_CREATE_jmp(drcontext, opnd_create_instr(done)));
        INSERT(crosses);
        insert_forgetting(drcontext, list, where, with, size);
    } else {
        INSERT(crosses);
    }
    INSERT(done);
}

static void
instrument_operand(void *drcontext, instrlist_t *list, instr_t *where, opnd_t memory, bool writes,
                   uint32_t index)
{
    struct scratch with;
    uint size = opnd_size_in_bytes(opnd_get_size(memory));
    if (size == 0)
        return;
    drvector_t allowed;
    drreg_init_and_fill_vector(&allowed, true);
    if (writes && is_plain_store(where, size) && instr_num_srcs(where) > 0 &&
        opnd_is_reg(instr_get_src(where, 0)))
        drreg_set_vector_entry(&allowed, reg_to_pointer_sized(opnd_get_reg(instr_get_src(where, 0))),
                               false);
    bool reserved = drreg_reserve_aflags(drcontext, list, where) == DRREG_SUCCESS &&
        drreg_reserve_register(drcontext, list, where, &allowed, &with.address) == DRREG_SUCCESS &&
        drreg_reserve_register(drcontext, list, where, &allowed, &with.word) == DRREG_SUCCESS &&
        drreg_reserve_register(drcontext, list, where, &allowed, &with.slot) == DRREG_SUCCESS;
    drvector_delete(&allowed);
    if (!reserved) {
        DR_ASSERT(false);
        return;
    }
    if (insert_any_address(drcontext, list, where, memory, with.address, with.word)) {
        if (writes && is_plain_store(where, size))
            insert_store(drcontext, list, where, with, size);
        else if (writes)
            insert_forgetting(drcontext, list, where, with, size);
        else if (is_masked(where))
            dr_insert_clean_call_ex(drcontext, list, where, (void *)read_masked,
                                    DR_CLEANCALL_ALWAYS_OUT_OF_LINE, 3, REG(with.address),
                                    OPND_CREATE_INT32((int)size), OPND_CREATE_INT32((int)index));
        else
            insert_read(drcontext, list, where, with, size, index);
    }
    drreg_unreserve_register(drcontext, list, where, with.slot);
    drreg_unreserve_register(drcontext, list, where, with.word);
    drreg_unreserve_register(drcontext, list, where, with.address);
    drreg_unreserve_aflags(drcontext, list, where);
}

/* What has a memory operand that it does not access. */
static bool
accesses_nothing(instr_t *app)
{
    switch (instr_get_opcode(app)) {
    case OP_lea:
    case OP_nop_modrm:
    case OP_clflush:
    case OP_clflushopt:
    case OP_clwb:
    case OP_invlpg: return true;
    default: return instr_is_prefetch(app);
    }
}

/* Just before the instruction, after whatever else is recorded of it. */
void
instrument_values(void *drcontext, instrlist_t *list, instr_t *where)
{
    uint32_t index = index_of(list, where);
    int opcode = instr_get_opcode(where);
    if (is_opaque(where)) {
        /* drreg does not keep flags that the instruction overwrites. */
        bool keeps = (instr_get_arith_flags(where, DR_QUERY_DEFAULT) & EFLAGS_WRITE_ARITH) == 0;
        dr_insert_clean_call_ex(drcontext, list, where, (void *)opaque,
                                DR_CLEANCALL_READS_APP_CONTEXT | DR_CLEANCALL_ALWAYS_OUT_OF_LINE,
                                3, OPND_CREATE_INTPTR(instr_get_app_pc(where)),
                                OPND_CREATE_INT32((int)index),
                                OPND_CREATE_INT32(keeps ? 0 : WIRE_CHECK_NO_FLAGS));
        return;
    }
    if (accesses_nothing(where))
        return;
    if (is_repeated(opcode)) {
        uint size = 0;
        for (int i = 0; i < instr_num_srcs(where) + instr_num_dsts(where); i++) {
            opnd_t operand = i < instr_num_srcs(where)
                ? instr_get_src(where, i)
                : instr_get_dst(where, i - instr_num_srcs(where));
            if (opnd_is_memory_reference(operand))
                size = opnd_size_in_bytes(opnd_get_size(operand));
        }
        dr_insert_clean_call_ex(drcontext, list, where, (void *)repeated,
                                DR_CLEANCALL_READS_APP_CONTEXT | DR_CLEANCALL_ALWAYS_OUT_OF_LINE,
                                3, OPND_CREATE_INT32(opcode), OPND_CREATE_INT32((int)size),
                                OPND_CREATE_INT32((int)index));
        return;
    }
    for (int i = 0; i < instr_num_srcs(where); i++) {
        if (opnd_is_memory_reference(instr_get_src(where, i)))
            instrument_operand(drcontext, list, where, instr_get_src(where, i), false, index);
    }
    for (int i = 0; i < instr_num_dsts(where); i++) {
        if (opnd_is_memory_reference(instr_get_dst(where, i)))
            instrument_operand(drcontext, list, where, instr_get_dst(where, i), true, index);
    }
}
