/* Accesses to memory: the code that records them. */
#include "recorder.h"

/* Shorthand for inserting code of ours. */
#define INSERT(instr) instrlist_meta_preinsert(list, where, (instr))
#define REG(reg) opnd_create_reg(reg)
#define LOW(reg) opnd_create_reg(reg_resize_to_opsz((reg), OPSZ_4))
#define AT(reg, offset) OPND_CREATE_MEM64((reg), (offset))

/* Loads the address of a memory operand. The registers that it uses may be in use for something
 * else at this point, so they get the program's values first. */
bool
insert_address(void *drcontext, instrlist_t *list, instr_t *where, opnd_t memory, reg_id_t to)
{
    if (opnd_is_rel_addr(memory) || opnd_is_abs_addr(memory)) {
        instrlist_insert_mov_immed_ptrsz(drcontext, (ptr_int_t)opnd_get_addr(memory), REG(to),
                                         list, where, NULL, NULL);
        return true;
    }
    /* A one-byte index is xlat's; nothing else can encode it. */
    if (!opnd_is_near_base_disp(memory) || opnd_get_index(memory) == DR_REG_AL)
        return false;
    if (drreg_restore_app_values(drcontext, list, where, memory, NULL) != DRREG_SUCCESS)
        return false;
    opnd_t address = memory;
    opnd_set_size(&address, OPSZ_lea);
    INSERT(INSTR_CREATE_lea(drcontext, REG(to), address));
    return true;
}

/* Empties the buffer. A signal that comes while this runs waits until the thread leaves the code
 * that DynamoRIO made, which in a loop may be never. So the thread leaves it now, and begins the
 * instruction at `pc` anew: nothing of it has been done, and what was recorded of it is in the
 * filter. */
static void
buffer_is_full(app_pc pc)
{
    empty_buffer(this_thread());
    if (pc == NULL)
        return;
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_ALL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    mc.pc = pc;
    dr_redirect_execution(&mc);
}

/* Where an instruction can begin anew; NULL if it cannot: it is a part of one that was expanded,
 * or the first of a hooked function, whose call was recorded already. */
static app_pc
anew(void *drcontext, instr_t *app)
{
    app_pc pc = instr_get_app_pc(app);
    instr_t original;
    instr_init(drcontext, &original);
    bool same = decode(drcontext, pc, &original) != NULL &&
        instr_get_opcode(&original) == instr_get_opcode(app);
    instr_free(drcontext, &original);
    return same && hooked_function(pc) == 0 ? pc : NULL;
}

/* Inserts a call that other inserted code may jump over, and that needs the program's registers.
 * Registers are given back after the instruction behind the place of the call, so that must be
 * one of ours. */
void
insert_call_on_one_path(void *drcontext, instrlist_t *list, instr_t *where, void *callee,
                        opnd_t argument)
{
    instr_t *here = INSTR_CREATE_label(drcontext);
    INSERT(here);
    dr_insert_clean_call_ex(drcontext, list, here, callee,
                            DR_CLEANCALL_READS_APP_CONTEXT | DR_CLEANCALL_MULTIPATH |
                                DR_CLEANCALL_ALWAYS_OUT_OF_LINE,
                            1, argument);
}

static void
insert_emptying(void *drcontext, instrlist_t *list, instr_t *where)
{
    insert_call_on_one_path(drcontext, list, where, (void *)buffer_is_full,
                            OPND_CREATE_INTPTR(anew(drcontext, where)));
}

/* Empties the buffer if it is full. */
void
insert_check(void *drcontext, instrlist_t *list, instr_t *where, reg_id_t scratch)
{
    /* What begins anew would be counted twice. There is room for a block. */
    if (with_values)
        return;
    instr_t *enough = INSTR_CREATE_label(drcontext);
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(scratch), slot_operand(POSITION)));
    INSERT(INSTR_CREATE_cmp(drcontext, REG(scratch), slot_operand(LIMIT)));
    INSERT(INSTR_CREATE_jcc(drcontext, OP_jb, opnd_create_instr(enough)));
    insert_emptying(drcontext, list, where);
    INSERT(enough);
}

/* Records an access of any size, without the filter. */
void
record_access(uint32_t kind, uint32_t site, uint64_t address, uint64_t size)
{
    struct thread *thread = this_thread();
    append(thread, FIRST(kind, size < 256 ? size : 0, address),
           place(site, context_number(thread)));
    if (size >= 256)
        append_value(thread, 0, size);
    empty_if_full(thread);
}

static void
long_access(uint64_t kind, uint64_t site, uint64_t address, uint64_t size)
{
    record_access((uint32_t)kind, (uint32_t)site, address, size);
}

/* Records one operand. It is left out if the filter says that it was recorded before in the same
 * region and context. A tag is the sum of address, operand, context and region, each of the last
 * three a number that is as good as random. */
static void
instrument_operand(void *drcontext, instrlist_t *list, instr_t *where, opnd_t memory,
                   uint32_t kind, uint32_t site, uint32_t which)
{
    reg_id_t address, tag, slot;
    uint size = opnd_size_in_bytes(opnd_get_size(memory));
    if (size == 0)
        return;
    if (drreg_reserve_aflags(drcontext, list, where) != DRREG_SUCCESS)
        return;
    if (drreg_reserve_register(drcontext, list, where, NULL, &address) != DRREG_SUCCESS ||
        drreg_reserve_register(drcontext, list, where, NULL, &tag) != DRREG_SUCCESS ||
        drreg_reserve_register(drcontext, list, where, NULL, &slot) != DRREG_SUCCESS) {
        DR_ASSERT(false);
        return;
    }
    instr_t *known = INSTR_CREATE_label(drcontext);
    if (!insert_address(drcontext, list, where, memory, address)) {
        /* Of another segment: thread-local memory. */
    } else if (size > 255) {
        dr_insert_clean_call(drcontext, list, where, (void *)long_access, false, 4,
                             OPND_CREATE_INT32(kind), OPND_CREATE_INT32(site), REG(address),
                             OPND_CREATE_INT32(size));
    } else {
        instrlist_insert_mov_immed_ptrsz(drcontext, (ptr_int_t)mix((uint64_t)site << 2 | which),
                                         REG(tag), list, where, NULL, NULL);
        INSERT(INSTR_CREATE_add(drcontext, REG(tag), REG(address)));
        INSERT(INSTR_CREATE_add(drcontext, REG(tag), slot_operand(CONTEXT)));
        INSERT(INSTR_CREATE_add(drcontext, REG(tag), slot_operand(REGION)));
        INSERT(INSTR_CREATE_mov_ld(drcontext, LOW(slot), LOW(tag)));
        INSERT(INSTR_CREATE_and(drcontext, LOW(slot), OPND_CREATE_INT32(FILTER_BYTES - 8)));
        INSERT(INSTR_CREATE_add(drcontext, REG(slot), slot_operand(FILTER)));
        INSERT(INSTR_CREATE_cmp(drcontext, REG(tag), AT(slot, 0)));
        INSERT(INSTR_CREATE_jcc(drcontext, OP_je, opnd_create_instr(known)));
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(slot, 0), REG(tag)));
        INSERT(INSTR_CREATE_mov_ld(drcontext, REG(slot), slot_operand(POSITION)));
        INSERT(INSTR_CREATE_mov_st(drcontext, AT(slot, 0), REG(address)));
        INSERT(INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM16(slot, 6),
                                   OPND_CREATE_INT16((short)(kind << 8 | size))));
        INSERT(INSTR_CREATE_mov_ld(drcontext, REG(tag), slot_operand(CONTEXT)));
        INSERT(INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM32(slot, 8),
                                   OPND_CREATE_INT32(site)));
        INSERT(INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM32(slot, 12), LOW(tag)));
        INSERT(INSTR_CREATE_lea(drcontext, REG(slot),
                                opnd_create_base_disp(slot, DR_REG_NULL, 0, 16, OPSZ_lea)));
        INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(POSITION), REG(slot)));
        if (!with_values) {
            INSERT(INSTR_CREATE_cmp(drcontext, REG(slot), slot_operand(LIMIT)));
            INSERT(INSTR_CREATE_jcc(drcontext, OP_jb, opnd_create_instr(known)));
            insert_emptying(drcontext, list, where);
        }
    }
    INSERT(known);
    drreg_unreserve_register(drcontext, list, where, slot);
    drreg_unreserve_register(drcontext, list, where, tag);
    drreg_unreserve_register(drcontext, list, where, address);
    drreg_unreserve_aflags(drcontext, list, where);
}

/* How many elements a repeated comparison will look at. It stops at the first that differs, or
 * that is equal, and what it does not look at is not accessed. */
uint64_t
compared(int opcode, const dr_mcontext_t *mc, uint64_t count, uint64_t size, int64_t step)
{
    bool scans = opcode == OP_rep_scas || opcode == OP_repne_scas;
    bool while_equal = opcode == OP_rep_scas || opcode == OP_rep_cmps;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t first = 0, second = 0;
        if (scans)
            first = size == 8 ? mc->xax : mc->xax & ((1ull << size * 8) - 1);
        else if (!dr_safe_read((void *)(mc->xsi + (uint64_t)(step * (int64_t)i)), size, &first,
                               NULL))
            return i;
        if (!dr_safe_read((void *)(mc->xdi + (uint64_t)(step * (int64_t)i)), size, &second, NULL))
            return i;
        if ((first == second) != while_equal)
            return i + 1;
    }
    return count;
}

/* A repeated string instruction: the whole of what it will access. With a count of 0 its
 * pointers may point anywhere. */
static void
repeated(uint64_t opcode, uint64_t size, uint64_t site)
{
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_INTEGER | DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    int64_t step = (mc.xflags & 1 << 10) != 0 ? -(int64_t)size : (int64_t)size;
    uint64_t count = mc.xcx;
    bool reads_source = false, reads_target = false, writes_target = false;
    switch (opcode) {
    case OP_rep_movs: reads_source = writes_target = true; break;
    case OP_rep_stos: writes_target = true; break;
    case OP_rep_lods: reads_source = true; break;
    case OP_rep_cmps:
    case OP_repne_cmps: reads_source = true; /* fall through */
    case OP_rep_scas:
    case OP_repne_scas:
        reads_target = true;
        count = compared((int)opcode, &mc, count, size, step);
        break;
    }
    if (count == 0)
        return;
    uint64_t back = step < 0 ? (count - 1) * size : 0;
    if (reads_source)
        record_access(WIRE_READ, (uint32_t)site, mc.xsi - back, count * size);
    if (reads_target)
        record_access(WIRE_READ, (uint32_t)site, mc.xdi - back, count * size);
    if (writes_target)
        record_access(WIRE_WRITE, (uint32_t)site, mc.xdi - back, count * size);
}

bool
is_repeated(int opcode)
{
    switch (opcode) {
    case OP_rep_movs:
    case OP_rep_stos:
    case OP_rep_lods:
    case OP_rep_cmps:
    case OP_repne_cmps:
    case OP_rep_scas:
    case OP_repne_scas: return true;
    default: return false;
    }
}

/* Whether the operand is the stack that the instruction uses by itself. */
static bool
is_own_stack(int opcode, opnd_t memory)
{
    if (!opnd_is_base_disp(memory))
        return false;
    reg_id_t base = opnd_get_base(memory);
    switch (opcode) {
    case OP_push:
    case OP_push_imm:
    case OP_pop:
    case OP_pushf:
    case OP_popf:
    case OP_call:
    case OP_call_ind:
    case OP_ret:
    case OP_enter: return base == DR_REG_XSP;
    case OP_leave: return true;
    default: return false;
    }
}

/* What has a memory operand and accesses nothing, or nothing of the program's data. */
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

void
instrument_access(void *drcontext, instrlist_t *list, instr_t *where, instr_t *app)
{
    if (accesses_nothing(app) || (!instr_reads_memory(app) && !instr_writes_memory(app)))
        return;
    int opcode = instr_get_opcode(app);
    uint32_t site = 0;
    if (is_repeated(opcode)) {
        uint size = opnd_size_in_bytes(opnd_get_size(
            instr_num_dsts(app) > 0 && opnd_is_memory_reference(instr_get_dst(app, 0))
                ? instr_get_dst(app, 0)
                : instr_get_src(app, 0)));
        for (int i = 0; i < instr_num_srcs(app); i++) {
            if (opnd_is_memory_reference(instr_get_src(app, i)))
                size = opnd_size_in_bytes(opnd_get_size(instr_get_src(app, i)));
        }
        dr_insert_clean_call_ex(drcontext, list, where, (void *)repeated,
                                DR_CLEANCALL_READS_APP_CONTEXT, 3, OPND_CREATE_INT32(opcode),
                                OPND_CREATE_INT32(size),
                                OPND_CREATE_INT32(site_of(instr_get_app_pc(app))));
        return;
    }
    if (is_masked(app)) {
        instrument_masked(drcontext, list, where);
        return;
    }
    uint32_t which = 0;
    for (int i = 0; i < instr_num_srcs(app); i++) {
        opnd_t source = instr_get_src(app, i);
        if (!opnd_is_memory_reference(source) || is_own_stack(opcode, source))
            continue;
        uint32_t kind = WIRE_READ;
        for (int j = 0; j < instr_num_dsts(app); j++) {
            if (opnd_same(source, instr_get_dst(app, j)))
                kind = WIRE_UPDATE;
        }
        site = site != 0 ? site : site_of(instr_get_app_pc(app));
        instrument_operand(drcontext, list, where, source, kind, site, which++);
    }
    for (int j = 0; j < instr_num_dsts(app); j++) {
        opnd_t target = instr_get_dst(app, j);
        if (!opnd_is_memory_reference(target) || is_own_stack(opcode, target))
            continue;
        bool also_read = false;
        for (int i = 0; i < instr_num_srcs(app); i++)
            also_read = also_read || opnd_same(target, instr_get_src(app, i));
        if (also_read)
            continue;
        site = site != 0 ? site : site_of(instr_get_app_pc(app));
        instrument_operand(drcontext, list, where, target, WIRE_WRITE, site, which++);
    }
}
