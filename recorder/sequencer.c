/* Sequencers: entries with a number that is global to the recording. */
#include "recorder.h"
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define INSERT(instr) instrlist_meta_preinsert(list, where, (instr))
#define REG(reg) opnd_create_reg(reg)

/* Atomic instructions on the same bytes get their numbers in the order in which they take
 * effect: each runs, with the drawing of its number, under a lock for the bytes' cache line. */
#define LOCKS 1024
static struct {
    volatile uint32_t held;
    uint32_t pad[15];
} locks[LOCKS] __attribute__((aligned(64)));

/* How often a lock is tried before its thread goes on without it. Its holder may have been stopped
 * for good; then an order that is not known is better than a program that hangs. */
#define PATIENCE 20000
/* Between the last of them it sleeps, for a tenth of a second in all: whoever displaced a holder
 * that was not stopped has given way by then. */
#define SLEEPS 1000

/* What is given back in place of a lock that was not taken. */
static volatile uint32_t no_lock;

/* The kernel allows no process more open files, unless its administrator raises fs.nr_open. */
#define HIGHEST_FILE (1 << 20)

static NO_VECTORS void
yield_processor(void)
{
    system_call(SYS_sched_yield, 0, 0, 0, 0);
}

static NO_VECTORS void
sleep_shortly(void)
{
    struct timespec time = { 0, 100 * 1000 };
    system_call(SYS_nanosleep, (uint64_t)&time, 0, 0, 0);
}

static NO_VECTORS bool
take_lock(struct thread *thread, uint64_t address)
{
    volatile uint32_t *lock = &locks[mix(address >> 6) % LOCKS].held;
    for (uint32_t tries = 1; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0; tries++) {
        if (tries == PATIENCE) {
            thread->slots[LOCK] = (uint64_t)&no_lock;
            return false;
        }
        if (tries > PATIENCE - SLEEPS)
            sleep_shortly();
        else if (tries % 16 != 0)
            __builtin_ia32_pause();
        else
            yield_processor();
    }
    thread->slots[LOCK] = (uint64_t)lock;
    return true;
}

/* The instruction will never be finished: it faulted. */
void
release_lock(struct thread *thread)
{
    volatile uint32_t *lock = (volatile uint32_t *)thread->slots[LOCK];
    thread->slots[LOCK] = 0;
    if (lock != NULL)
        *lock = 0;
}

void
sequencer_after_fork(void)
{
    for (uint32_t i = 0; i < LOCKS; i++)
        locks[i].held = 0;
}

static NO_VECTORS void
atomic(uint64_t size, uint64_t site, uint64_t address)
{
    struct thread *thread = this_thread();
    /* Without the lock the number says nothing of the order. Others would go by it. */
    if (!take_lock(thread, address))
        append(thread, FIRST(WIRE_LOST, 0, 0), 1);
    number_next(thread);
    append(thread, FIRST(WIRE_ATOMIC, size, address),
           place((uint32_t)site, context_number(thread)));
    numbered(thread);
    values_at_sequencer(thread);
}

static NO_VECTORS void
fence(uint64_t site)
{
    struct thread *thread = this_thread();
    number_next(thread);
    append(thread, FIRST(WIRE_FENCE, 0, 0), place((uint32_t)site, context_number(thread)));
    numbered(thread);
    values_at_sequencer(thread);
}

bool
is_atomic(instr_t *instr)
{
    return instr_get_prefix_flag(instr, PREFIX_LOCK) ||
        (instr_get_opcode(instr) == OP_xchg &&
         (instr_reads_memory(instr) || instr_writes_memory(instr)));
}

void
instrument_atomic(void *drcontext, instrlist_t *list, instr_t *where)
{
    opnd_t memory = opnd_create_null();
    for (int i = 0; i < instr_num_dsts(where); i++) {
        if (opnd_is_memory_reference(instr_get_dst(where, i)))
            memory = instr_get_dst(where, i);
    }
    if (opnd_is_null(memory))
        return;
    uint32_t site = site_of(instr_get_app_pc(where));
    uint size = opnd_size_in_bytes(opnd_get_size(memory));
    reg_id_t address;
    if (drreg_reserve_aflags(drcontext, list, where) != DRREG_SUCCESS)
        return;
    if (drreg_reserve_register(drcontext, list, where, NULL, &address) != DRREG_SUCCESS) {
        DR_ASSERT(false);
        return;
    }
    /* First, because nothing of the instruction may have been done then. */
    insert_check(drcontext, list, where, address);
    bool recorded = insert_address(drcontext, list, where, memory, address);
    if (recorded) {
        dr_insert_clean_call_ex(
            drcontext, list, where, (void *)atomic,
            DR_CLEANCALL_NOSAVE_XMM | DR_CLEANCALL_ALWAYS_OUT_OF_LINE, 3, OPND_CREATE_INT32(size),
            OPND_CREATE_INT32(site), REG(address));
    }
    drreg_unreserve_register(drcontext, list, where, address);
    drreg_unreserve_aflags(drcontext, list, where);
    if (!recorded)
        return;
    /* After the instruction. The register keeps whatever it holds, the program's value or one of
     * ours, and no flag is touched. */
    instr_t *after[] = {
        INSTR_CREATE_mov_st(drcontext, slot_operand(SPARE), REG(DR_REG_XAX)),
        INSTR_CREATE_mov_ld(drcontext, REG(DR_REG_XAX), slot_operand(LOCK)),
        INSTR_CREATE_mov_st(drcontext, slot_operand(LOCK), OPND_CREATE_INT32(0)),
        INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM32(DR_REG_XAX, 0), OPND_CREATE_INT32(0)),
        INSTR_CREATE_mov_ld(drcontext, REG(DR_REG_XAX), slot_operand(SPARE)),
    };
    for (int i = (int)(sizeof after / sizeof after[0]) - 1; i >= 0; i--)
        instrlist_meta_postinsert(list, where, after[i]);
}

void
instrument_fence(void *drcontext, instrlist_t *list, instr_t *where)
{
    uint32_t site = site_of(instr_get_app_pc(where));
    reg_id_t scratch;
    if (drreg_reserve_aflags(drcontext, list, where) != DRREG_SUCCESS)
        return;
    if (drreg_reserve_register(drcontext, list, where, NULL, &scratch) != DRREG_SUCCESS) {
        DR_ASSERT(false);
        return;
    }
    insert_check(drcontext, list, where, scratch);
    dr_insert_clean_call_ex(drcontext, list, where, (void *)fence,
                            DR_CLEANCALL_NOSAVE_XMM | DR_CLEANCALL_ALWAYS_OUT_OF_LINE, 1,
                            OPND_CREATE_INT32(site));
    drreg_unreserve_register(drcontext, list, where, scratch);
    drreg_unreserve_aflags(drcontext, list, where);
}

/* DynamoRIO looks at each file that close_range closes, and programs close them up to the highest
 * number there is. Up to the highest that can be open is the same, and takes no minutes. The
 * program keeps its register. */
static void
shorten_close_range(void *drcontext, struct thread *thread)
{
    struct {
        uint64_t soft, hard;
    } files = { 0, 0 };
    uint64_t last = dr_syscall_get_param(drcontext, 1);
    long failed = system_call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&files);
    uint64_t highest = files.hard < HIGHEST_FILE ? files.hard : HIGHEST_FILE;
    if (failed == 0 && last > highest) {
        thread->shortened = last;
        dr_syscall_set_param(drcontext, 1, highest);
    }
}

static void
restore_close_range(void *drcontext, struct thread *thread)
{
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_INTEGER };
    if (thread->shortened == 0 || !dr_get_mcontext(drcontext, &mc))
        return;
    mc.xsi = thread->shortened;
    thread->shortened = 0;
    dr_set_mcontext(drcontext, &mc);
}

/* clone3 has its arguments in memory. Flags and the address of the child's number, which are told
 * as its third and fourth. */
static void
read_clone_arguments(uint64_t arguments[6])
{
    struct {
        uint64_t flags, pidfd, child_tid;
    } in_memory;
    if (dr_safe_read((void *)arguments[0], sizeof in_memory, &in_memory, NULL)) {
        arguments[2] = in_memory.flags;
        arguments[3] = in_memory.child_tid;
    }
}

/* The one that calls exec does nothing more. */
static void
write_before_exec(struct thread *thread)
{
    if (thread == this_thread())
        write_buffer(thread);
    else
        write_buffer_up_to_now(thread);
}

bool
before_system_call(void *drcontext, int number)
{
    struct thread *thread = this_thread();
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_CONTROL };
    dr_get_mcontext(drcontext, &mc);
    if (with_values)
        values_at_system_call(drcontext, thread);
    number_next(thread);
    append(thread, FIRST(WIRE_SYSTEMCALL, 0, (uint64_t)number),
           place(site_of(mc.pc), context_number(thread)));
    uint64_t arguments[6];
    for (uint32_t i = 0; i < 6; i++)
        arguments[i] = dr_syscall_get_param(drcontext, (int)i);
    if (number == SYS_clone3)
        read_clone_arguments(arguments);
    for (uint32_t i = 0; i < 6; i++)
        append_value(thread, i, arguments[i]);
    numbered(thread);
    empty_if_full(thread);
    if (number == SYS_close_range)
        shorten_close_range(drcontext, thread);
    if (number == SYS_execve || number == SYS_execveat) {
        /* If it succeeds, nothing of this program is left. */
        for_each_thread(write_before_exec);
    } else if (number == SYS_exit_group) {
        /* The child of a vfork ends without an event. */
        empty_buffer(thread);
    }
    return true;
}

void
after_system_call(void *drcontext, int number)
{
    struct thread *thread = this_thread();
    number_next(thread);
    append(thread, FIRST(WIRE_SYSTEMRETURN, 0, (uint64_t)number), place(0, context_number(thread)));
    append_value(thread, 0, dr_syscall_get_result(drcontext));
    numbered(thread);
    if (number == SYS_close_range)
        restore_close_range(drcontext, thread);
    empty_if_full(thread);
}

void
thread_starts(struct thread *thread, uint64_t tls, uint64_t stack)
{
    number_next(thread);
    append(thread, FIRST(WIRE_START, 0, 0), 0);
    append_value(thread, 0, tls);
    append_value(thread, 1, stack);
    numbered(thread);
}

void
thread_ends(struct thread *thread)
{
    number_next(thread);
    append(thread, FIRST(WIRE_EXIT, 0, 0), 0);
    numbered(thread);
}
