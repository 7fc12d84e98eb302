/* Calls: which chain of them led to an access, and those of hooked functions.
 *
 * Each thread has a list of frames, the calls that have not returned. Frames are told from each
 * other by the stack pointer at their call, so that longjmp and exceptions, which leave several at
 * once, are noticed at the next call or return.
 */
#include "recorder.h"

#define INSERT(instr) instrlist_meta_preinsert(list, where, (instr))
#define REG(reg) opnd_create_reg(reg)
#define LOW(reg) opnd_create_reg(reg_resize_to_opsz((reg), OPSZ_4))
#define AT(reg, offset) OPND_CREATE_MEM64((reg), (offset))

/* As the inserted code computes it. */
static uint32_t
place_in_calls(uint32_t context, uint32_t site)
{
    uint32_t hash = context * 0x9e3779b1 >> 12 ^ (uint32_t)mix(site);
    return hash & (CALLS_BYTES - 16);
}

static struct frame *
last_frame(struct thread *thread)
{
    return (struct frame *)thread->slots[FRAMES] - 1;
}

static void
set_frames_end(struct thread *thread, struct frame *end)
{
    thread->slots[FRAMES] = (uint64_t)end;
}

/* How far a handler's stack may reach, if it is not that of what it interrupts. */
#define HANDLER_DEPTH (1 << 20)
#define HANDLER_FRAME (16 * 1024)
/* How far above its first stack pointer a handler may be, when it returns. */
#define HANDLER_REST 64

/* Whether a handler with a stack of its own was left without returning: the stack pointer is
 * elsewhere. */
static bool
is_handler_left(struct thread *thread, struct frame *last, uint64_t stack)
{
    if (last->stack != UINT64_MAX || last == thread->frames || thread->interrupted_count == 0)
        return false;
    uint64_t top = thread->interrupted[thread->interrupted_count - 1].handler + HANDLER_FRAME;
    return stack > top || stack < top - HANDLER_DEPTH;
}

/* How many of the hooked functions are in code that a handler with a stack of its own interrupted.
 * Where its stack is says nothing about whether they have returned. */
static uint32_t
hooked_floor(struct thread *thread)
{
    uint32_t count = thread->interrupted_count;
    return count == 0 ? 0 : thread->interrupted[count - 1].floor;
}

/* Leaves frames that are dead when the stack pointer is this. */
static void
leave_dead(struct thread *thread, uint64_t stack)
{
    struct frame *last = last_frame(thread);
    for (;;) {
        if (is_handler_left(thread, last, stack))
            thread->interrupted_count--;
        else if ((last->stack & ~1ull) > stack)
            break;
        thread->slots[CONTEXT] = last->context;
        last--;
    }
    set_frames_end(thread, last + 1);
    uint32_t floor = hooked_floor(thread);
    while (thread->hooked_count > floor && thread->hooked[thread->hooked_count - 1].stack <= stack)
        thread->hooked_count--;
}

/* A call that the inserted code does not know, or that finds dead frames. */
static void
call(uint64_t site, uint64_t return_address)
{
    struct thread *thread = this_thread();
    uint64_t stack = thread->slots[SPARE];
    leave_dead(thread, stack);
    struct frame *frame = last_frame(thread) + 1;
    if ((uint64_t)(frame + 1) >= thread->slots[FRAMES_LIMIT]) {
        /* Endless recursion, or nearly. The oldest half goes; its returns change nothing. */
        size_t keep = FRAMES_BYTES / sizeof *frame / 2;
        struct frame *from = frame - keep;
        for (size_t i = 0; i < keep; i++)
            thread->frames[1 + i] = from[i];
        frame = thread->frames + 1 + keep;
    }
    uint64_t before = thread->slots[CONTEXT];
    *frame = (struct frame){ stack, before };
    set_frames_end(thread, frame + 1);
    uint32_t context = context_of((uint32_t)before, (uint32_t)site, (app_pc)return_address);
    struct known_call *known =
        (void *)(thread->slots[CALLS] + place_in_calls((uint32_t)before, (uint32_t)site));
    known->key = before << 32 | site;
    known->context = context_word(context);
    thread->slots[CONTEXT] = known->context;
}

void
instrument_call(void *drcontext, instrlist_t *list, instr_t *where)
{
    app_pc pc = instr_get_app_pc(where);
    app_pc next = decode_next_pc(drcontext, pc);
    uint32_t site = site_of(next);
    reg_id_t frame, context, key;
    if (drreg_reserve_aflags(drcontext, list, where) != DRREG_SUCCESS)
        return;
    if (drreg_reserve_register(drcontext, list, where, NULL, &frame) != DRREG_SUCCESS ||
        drreg_reserve_register(drcontext, list, where, NULL, &context) != DRREG_SUCCESS ||
        drreg_reserve_register(drcontext, list, where, NULL, &key) != DRREG_SUCCESS) {
        DR_ASSERT(false);
        return;
    }
    instr_t *unknown = INSTR_CREATE_label(drcontext);
    instr_t *done = INSTR_CREATE_label(drcontext);
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(frame), slot_operand(FRAMES)));
    INSERT(INSTR_CREATE_lea(drcontext, REG(frame),
                            opnd_create_base_disp(frame, DR_REG_NULL, 0, 32, OPSZ_lea)));
    INSERT(INSTR_CREATE_cmp(drcontext, REG(frame), slot_operand(FRAMES_LIMIT)));
    INSERT(INSTR_CREATE_jcc(drcontext, OP_jnb, opnd_create_instr(unknown)));
    /* Is the last frame dead? */
    INSERT(INSTR_CREATE_cmp(drcontext, AT(frame, -48), REG(DR_REG_XSP)));
    INSERT(INSTR_CREATE_jcc(drcontext, OP_jbe, opnd_create_instr(unknown)));
    /* Is the call known? */
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(context), slot_operand(CONTEXT)));
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(key), REG(context)));
    INSERT(INSTR_CREATE_imul_imm(drcontext, LOW(context), LOW(context),
                                 OPND_CREATE_INT32((int)0x9e3779b1)));
    INSERT(INSTR_CREATE_shr(drcontext, LOW(context), OPND_CREATE_INT8(12)));
    INSERT(INSTR_CREATE_xor(drcontext, LOW(context), OPND_CREATE_INT32((int)mix(site))));
    INSERT(INSTR_CREATE_and(drcontext, LOW(context), OPND_CREATE_INT32(CALLS_BYTES - 16)));
    INSERT(INSTR_CREATE_add(drcontext, REG(context), slot_operand(CALLS)));
    INSERT(INSTR_CREATE_mov_st(drcontext, AT(frame, -24), REG(key)));
    INSERT(INSTR_CREATE_shl(drcontext, REG(key), OPND_CREATE_INT8(32)));
    INSERT(INSTR_CREATE_or(drcontext, REG(key), OPND_CREATE_INT32(site)));
    INSERT(INSTR_CREATE_cmp(drcontext, REG(key), AT(context, 0)));
    INSERT(INSTR_CREATE_jcc(drcontext, OP_jnz, opnd_create_instr(unknown)));
    INSERT(INSTR_CREATE_mov_st(drcontext, AT(frame, -32), REG(DR_REG_XSP)));
    INSERT(INSTR_CREATE_lea(drcontext, REG(frame),
                            opnd_create_base_disp(frame, DR_REG_NULL, 0, -16, OPSZ_lea)));
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(context), AT(context, 8)));
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(FRAMES), REG(frame)));
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(CONTEXT), REG(context)));
    INSERT(INSTR_CREATE_jmp(drcontext, opnd_create_instr(done)));
    INSERT(unknown);
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(SPARE), REG(DR_REG_XSP)));
    dr_insert_clean_call_ex(drcontext, list, where, (void *)call,
                            DR_CLEANCALL_ALWAYS_OUT_OF_LINE, 2, OPND_CREATE_INT32(site),
                            OPND_CREATE_INTPTR(next));
    INSERT(done);
    drreg_unreserve_register(drcontext, list, where, key);
    drreg_unreserve_register(drcontext, list, where, context);
    drreg_unreserve_register(drcontext, list, where, frame);
    drreg_unreserve_aflags(drcontext, list, where);
}

/* A return that does not belong to the last frame, or from a hooked function. */
static void
returned(uint64_t none)
{
    (void)none;
    struct thread *thread = this_thread();
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_INTEGER | DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    /* The frame of this return has the stack pointer from before its call. */
    uint64_t stack = mc.xsp + 8;
    leave_dead(thread, mc.xsp);
    while (thread->hooked_count > 0) {
        struct hooked *hooked = &thread->hooked[thread->hooked_count - 1];
        if (hooked->stack != stack)
            break;
        thread->hooked_count--;
        number_next(thread);
        append(thread, FIRST(WIRE_RETURN, 0, hooked->function),
               place(site_of((app_pc)hooked->return_address), hooked->context));
        append_value(thread, 0, mc.xax);
        uint64_t block;
        if (hooked->function == WIRE_FUNCTION_POSIXMEMALIGN && (uint32_t)mc.xax == 0 &&
            dr_safe_read((void *)hooked->argument, sizeof block, &block, NULL))
            append_value(thread, 1, block);
        numbered(thread);
    }
    struct frame *last = last_frame(thread);
    if ((last->stack & ~1ull) == stack) {
        thread->slots[CONTEXT] = last->context;
        set_frames_end(thread, last);
    }
    empty_if_full(thread);
}

void
instrument_return(void *drcontext, instrlist_t *list, instr_t *where)
{
    reg_id_t frame, stack;
    if (drreg_reserve_aflags(drcontext, list, where) != DRREG_SUCCESS)
        return;
    if (drreg_reserve_register(drcontext, list, where, NULL, &frame) != DRREG_SUCCESS ||
        drreg_reserve_register(drcontext, list, where, NULL, &stack) != DRREG_SUCCESS) {
        DR_ASSERT(false);
        return;
    }
    instr_t *other = INSTR_CREATE_label(drcontext);
    instr_t *done = INSTR_CREATE_label(drcontext);
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(frame), slot_operand(FRAMES)));
    INSERT(INSTR_CREATE_lea(drcontext, REG(stack),
                            opnd_create_base_disp(DR_REG_XSP, DR_REG_NULL, 0, 8, OPSZ_lea)));
    INSERT(INSTR_CREATE_cmp(drcontext, REG(stack), AT(frame, -16)));
    INSERT(INSTR_CREATE_jcc(drcontext, OP_jnz, opnd_create_instr(other)));
    INSERT(INSTR_CREATE_mov_ld(drcontext, REG(stack), AT(frame, -8)));
    INSERT(INSTR_CREATE_lea(drcontext, REG(frame),
                            opnd_create_base_disp(frame, DR_REG_NULL, 0, -16, OPSZ_lea)));
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(CONTEXT), REG(stack)));
    INSERT(INSTR_CREATE_mov_st(drcontext, slot_operand(FRAMES), REG(frame)));
    INSERT(INSTR_CREATE_jmp(drcontext, opnd_create_instr(done)));
    INSERT(other);
    insert_call_on_one_path(drcontext, list, where, (void *)returned, OPND_CREATE_INT32(0));
    INSERT(done);
    drreg_unreserve_register(drcontext, list, where, stack);
    drreg_unreserve_register(drcontext, list, where, frame);
    drreg_unreserve_aflags(drcontext, list, where);
}

/* How many of its arguments are recorded. */
static uint32_t
arguments_of(uint64_t function)
{
    return function < WIRE_FUNCTIONS ? wire_functions[function].arguments : WIRE_OWN_ARGUMENTS;
}

/* A hooked function begins. */
static void
hook(uint64_t function)
{
    struct thread *thread = this_thread();
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_INTEGER | DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    uint64_t arguments[] = { mc.xdi, mc.xsi, mc.xdx };
    uint64_t return_address = 0;
    uint64_t stack = mc.xsp + 8;
    dr_safe_read((void *)mc.xsp, sizeof return_address, &return_address, NULL);
    leave_dead(thread, mc.xsp);
    struct frame *last = last_frame(thread);
    uint32_t context;
    if ((last->stack & ~1ull) != stack || thread->hooked_count >= MOST_HOOKED) {
        /* Its return would not be seen: what it takes would never be taken. */
        append(thread, FIRST(WIRE_LOST, 0, 0), 1);
        empty_if_full(thread);
        return;
    }
    /* The place of the call is in the caller's context. The mark sends the return to us. */
    context = (uint32_t)last->context;
    last->stack |= 1;
    thread->hooked[thread->hooked_count++] = (struct hooked){
        stack, return_address, (uint32_t)function, context, arguments[0]
    };
    number_next(thread);
    append(thread, FIRST(WIRE_CALL, 0, function), place(site_of((app_pc)return_address), context));
    for (uint32_t i = 0; i < arguments_of(function); i++)
        append_value(thread, i, arguments[i]);
    numbered(thread);
    empty_if_full(thread);
}

void
instrument_hook(void *drcontext, instrlist_t *list, instr_t *where, uint32_t function)
{
    dr_insert_clean_call_ex(drcontext, list, where, (void *)hook,
                            DR_CLEANCALL_READS_APP_CONTEXT | DR_CLEANCALL_ALWAYS_OUT_OF_LINE, 1,
                            OPND_CREATE_INT32(function));
}

/* A signal's handler is about to run. Its frames come after those of what it interrupts, as if
 * that had called it. */
void
handler_starts(struct thread *thread, const dr_kernel_xfer_info_t *info)
{
    app_pc pc = info->source_mcontext != NULL ? info->source_mcontext->pc : NULL;
    uint32_t site = site_of(pc);
    uint32_t context = context_number(thread);
    uint64_t stack = info->source_mcontext != NULL ? info->source_mcontext->xsp : 0;
    /* Handlers on the stack of what they interrupted may have been left by siglongjmp. */
    while (thread->interrupted_count == MOST_INTERRUPTED) {
        struct interrupted *left = &thread->interrupted[MOST_INTERRUPTED - 1];
        if (left->has_own_stack || left->handler + HANDLER_REST >= stack)
            break;
        thread->interrupted_count--;
    }
    if (thread->interrupted_count < MOST_INTERRUPTED) {
        bool has_own_stack = info->target_xsp > stack || stack - info->target_xsp > HANDLER_FRAME;
        uint32_t hooked = thread->hooked_count;
        uint32_t floor = has_own_stack ? hooked : hooked_floor(thread);
        thread->interrupted[thread->interrupted_count++] = (struct interrupted){
            thread->slots[FRAMES], thread->slots[CONTEXT], stack, info->target_xsp, hooked, floor,
            has_own_stack
        };
        struct frame *frame = last_frame(thread) + 1;
        if (has_own_stack && (uint64_t)(frame + 1) < thread->slots[FRAMES_LIMIT]) {
            /* The stack pointer tells nothing about the frames before this one. */
            *frame = (struct frame){ UINT64_MAX, thread->slots[CONTEXT] };
            set_frames_end(thread, frame + 1);
        }
    }
    if (with_values)
        values_at_signal(thread, info->source_mcontext);
    number_next(thread);
    append(thread, FIRST(WIRE_SIGNAL, 0, (uint64_t)info->sig), place(site, context));
    numbered(thread);
    thread->slots[CONTEXT] = context_word(context_of(context, site, pc));
    empty_if_full(thread);
}

/* A handler returns to what it interrupted. Handlers that were left by siglongjmp never do. */
void
handler_returns(struct thread *thread, const dr_kernel_xfer_info_t *info)
{
    while (thread->interrupted_count > 0) {
        struct interrupted *to = &thread->interrupted[--thread->interrupted_count];
        if (to->stack == info->target_xsp) {
            thread->slots[FRAMES] = to->frames;
            thread->slots[CONTEXT] = to->context;
            if (thread->hooked_count > to->hooked)
                thread->hooked_count = to->hooked;
            return;
        }
    }
}
