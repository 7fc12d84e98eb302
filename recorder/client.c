/* The client: what DynamoRIO calls. */
#include "recorder.h"
#include "drx.h"
#include <string.h>
#include <sys/syscall.h>

struct shared *shared;
reg_id_t tls_segment;
uint tls_offset;

static struct thread *threads;
static long own_process;
bool with_values;
static void *threads_lock;

opnd_t
slot_operand(enum slot slot)
{
    return opnd_create_far_base_disp_ex(tls_segment, DR_REG_NULL, DR_REG_NULL, 0,
                                        (int)(tls_offset + slot * sizeof(uint64_t)), OPSZ_8, false,
                                        true, false);
}

NO_VECTORS struct thread *
this_thread(void)
{
    struct thread *thread;
    uint64_t at = tls_offset + SELF * sizeof(uint64_t);
    __asm__ volatile("mov %%gs:(%1), %0" : "=r"(thread) : "r"(at));
    return thread;
}

void
for_each_thread(void (*what)(struct thread *))
{
    dr_mutex_lock(threads_lock);
    for (struct thread *thread = threads; thread != NULL; thread = thread->next)
        what(thread);
    dr_mutex_unlock(threads_lock);
}

static void
hello(void)
{
    char text[MAXIMUM_PATH * 6 + 256];
    char program[MAXIMUM_PATH * 6];
    module_data_t *main_module = dr_get_main_module();
    const char *path =
        main_module != NULL && main_module->full_path != NULL ? main_module->full_path : "";
    size_t length = 0;
    for (; *path != 0 && length + 8 < sizeof program; path++) {
        unsigned char byte = (unsigned char)*path;
        if (byte < 0x20 || byte == '"' || byte == '\\')
            length += (size_t)dr_snprintf(program + length, 7, "\\u%04x", byte);
        else
            program[length++] = (char)byte;
    }
    program[length] = 0;
    dr_snprintf(text, sizeof text,
                "{\"version\":1,\"process\":%u,\"parent\":%u,\"program\":\"%s\"}",
                (uint)dr_get_process_id(), (uint)dr_get_parent_id(), program);
    if (main_module != NULL)
        dr_free_module_data(main_module);
    __atomic_fetch_add(&shared->greeted, 1, __ATOMIC_SEQ_CST);
    output_text(WIRE_CHUNK_HELLO, 0, text);
}

/* The program's own base of thread-local memory. */
static uint64_t
thread_local_base(void)
{
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_INTEGER };
    opnd_t base = opnd_create_far_base_disp(DR_SEG_FS, DR_REG_NULL, DR_REG_NULL, 0, 0, OPSZ_8);
    return (uint64_t)opnd_compute_address(base, &mc);
}

static void
thread_init(void *drcontext)
{
    struct thread *thread = dr_global_alloc(sizeof *thread);
    memset(thread, 0, sizeof *thread);
    thread->id = (uint32_t)dr_get_thread_id(drcontext);
    thread->slots = (uint64_t *)(dr_get_dr_segment_base(tls_segment) + tls_offset);
    thread->write_lock = dr_mutex_create();
    thread_memory_init(thread);
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_CONTROL };
    dr_get_mcontext(drcontext, &mc);
    thread_starts(thread, thread_local_base(), mc.xsp);
    dr_mutex_lock(threads_lock);
    thread->next = threads;
    if (threads != NULL)
        threads->previous = thread;
    threads = thread;
    dr_mutex_unlock(threads_lock);
}

/* Whether this is another process than the one whose stream we have: a child before it has its
 * own, or one that shares its parent's memory. */
static bool
is_forked_child(void)
{
    return system_call(SYS_getpid, 0, 0, 0, 0) != own_process;
}

static void
tell_name(struct thread *thread)
{
    char path[64], name[32] = "";
    dr_snprintf(path, sizeof path, "/proc/self/task/%u/comm", thread->id);
    file_t file = dr_open_file(path, DR_FILE_READ);
    if (file == INVALID_FILE)
        return;
    ssize_t length = dr_read_file(file, name, sizeof name - 1);
    dr_close_file(file);
    if (length > 1) {
        name[length - 1] = 0;
        output_text(WIRE_CHUNK_NAME, thread->id, name);
    }
}

/* At the end of the process this runs on another thread than the one that ends. */
static void
thread_exit(void *drcontext)
{
    thread_id_t id = dr_get_thread_id(drcontext);
    struct thread *thread;
    if (is_forked_child() && this_thread()->id != (uint32_t)id) {
        /* Only its parent has this thread. */
        return;
    }
    dr_mutex_lock(threads_lock);
    for (thread = threads; thread != NULL && thread->id != (uint32_t)id; thread = thread->next)
        ;
    if (thread != NULL) {
        if (thread->next != NULL)
            thread->next->previous = thread->previous;
        if (thread->previous != NULL)
            thread->previous->next = thread->next;
        else
            threads = thread->next;
    }
    dr_mutex_unlock(threads_lock);
    if (thread == NULL)
        return;
    thread_ends(thread);
    empty_buffer(thread);
    if (recording)
        tell_name(thread);
    thread_memory_exit(thread);
    dr_mutex_destroy(thread->write_lock);
    dr_global_free(thread, sizeof *thread);
}

static void
fork_init(void *drcontext)
{
    struct thread *self = this_thread();
    /* Locks may have been held by threads that the child does not have. */
    threads_lock = dr_mutex_create();
    for (struct thread *thread = threads, *next; thread != NULL; thread = next) {
        next = thread->next;
        if (thread != self)
            thread_memory_exit(thread);
    }
    threads = self;
    self->next = self->previous = NULL;
    self->write_lock = dr_mutex_create();
    self->is_drawing = false;
    self->id = (uint32_t)dr_get_thread_id(drcontext);
    values_begin(self);
    sequencer_after_fork();
    dictionary_after_fork();
    buffers_after_fork();
    own_process = system_call(SYS_getpid, 0, 0, 0, 0);
    output_again();
    hello();
    modules_after_fork();
    if (with_values)
        code_after_fork();
    /* What the parent recorded is the parent's. */
    self->written = (struct entry *)(self->buffer + WIRE_CHUNK_HEADER_SIZE);
    self->slots[POSITION] = (uint64_t)self->written;
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_CONTROL };
    dr_get_mcontext(drcontext, &mc);
    thread_starts(self, thread_local_base(), mc.xsp);
}

static void
kernel_transfer(void *drcontext, const dr_kernel_xfer_info_t *info)
{
    (void)drcontext;
    struct thread *thread = this_thread();
    if (info->type == DR_XFER_SIGNAL_DELIVERY)
        handler_starts(thread, info);
    else if (info->type == DR_XFER_SIGNAL_RETURN)
        handler_returns(thread, info);
}

static dr_signal_action_t
signalled(void *drcontext, dr_siginfo_t *info)
{
    (void)drcontext;
    (void)info;
    release_lock(this_thread());
    return DR_SIGNAL_DELIVER;
}

/* DynamoRIO saves what only AVX-512 uses once it has seen an instruction that may write it. Too
 * late for what a block before that wrote, such as ymm17. So the first block begins with one, which
 * changes nothing. */
static void
use_all_vectors(void *drcontext, instrlist_t *list)
{
    static app_pc first_block;
    instr_t *first = instrlist_first_app(list);
    app_pc pc = first != NULL ? instr_get_app_pc(first) : NULL;
    if (first_block == NULL)
        first_block = pc;
    if (pc == NULL || pc != first_block || !proc_avx512_enabled())
        return;
    opnd_t mask = opnd_create_reg(DR_REG_K0);
    instr_t *move = instr_create_1dst_1src(drcontext, OP_kmovw, mask, mask);
    instrlist_preinsert(list, first, INSTR_XL8(move, pc));
}

static dr_emit_flags_t
expand(void *drcontext, void *tag, instrlist_t *list, bool for_trace, bool translating)
{
    bool expanded;
    (void)tag;
    (void)for_trace;
    (void)translating;
    /* Gathers and scatters become single accesses. */
    drx_expand_scatter_gather(drcontext, list, &expanded);
    use_all_vectors(drcontext, list);
    if (with_values)
        values_shorten(drcontext, list);
    return DR_EMIT_DEFAULT;
}

static dr_emit_flags_t
instrument(void *drcontext, void *tag, instrlist_t *list, instr_t *where, bool for_trace,
           bool translating, void *user_data)
{
    (void)tag;
    (void)for_trace;
    (void)user_data;
    if (!instr_is_app(where) || instr_get_app_pc(where) == NULL)
        return DR_EMIT_DEFAULT;
    instrument_entry(drcontext, list, where);
    if (with_values) {
        if (!translating && where == instrlist_first_app(list))
            note_code(list);
        instrument_block(drcontext, list, where);
    }
    uint32_t function = hooked_function(instr_get_app_pc(where));
    if (function != 0)
        instrument_hook(drcontext, list, where, function);
    if (is_atomic(where)) {
        instrument_atomic(drcontext, list, where);
        if (with_values)
            instrument_values(drcontext, list, where);
        return DR_EMIT_DEFAULT;
    }
    instrument_access(drcontext, list, where, where);
    if (instr_get_opcode(where) == OP_mfence)
        instrument_fence(drcontext, list, where);
    else if (instr_is_call(where))
        instrument_call(drcontext, list, where);
    else if (instr_is_return(where))
        instrument_return(drcontext, list, where);
    if (with_values)
        instrument_values(drcontext, list, where);
    return DR_EMIT_DEFAULT;
}

static bool
every_system_call(void *drcontext, int number)
{
    (void)drcontext;
    (void)number;
    return true;
}

static void
process_exit(void)
{
    write_dictionary();
    write_code();
    output_text(WIRE_CHUNK_GOODBYE, 0, "");
    output_close();
    drmgr_exit();
}

/* A register whose value the program does not use any more cannot be restored, and need not be. */
static bool
is_harmless(drreg_status_t status)
{
    return status == DRREG_ERROR_NO_APP_VALUE;
}

DR_EXPORT void
dr_client_main(client_id_t id, int argc, const char *argv[])
{
    (void)id;
    drreg_options_t registers = { .struct_size = sizeof registers, .num_spill_slots = 6,
                                  .error_callback = is_harmless };
    dr_set_client_name("redhanded recorder", "");
    with_values = argc == 3 && strcmp(argv[2], WIRE_OPTION_VALUES) == 0;
    /* What the program will not use is written, too, and compared. */
    registers.conservative = with_values;
    if ((argc != 2 && !with_values) || !drmgr_init() || drreg_init(&registers) != DRREG_SUCCESS || !drx_init() ||
        !dr_raw_tls_calloc(&tls_segment, &tls_offset, SLOTS, 0) || tls_segment != DR_SEG_GS) {
        dr_fprintf(STDERR, "redhanded: the recorder cannot start\n");
        dr_abort_with_code(125);
    }
    own_process = system_call(SYS_getpid, 0, 0, 0, 0);
    threads_lock = dr_mutex_create();
    if (!output_open(argv[1]) && shared == NULL) {
        dr_fprintf(STDERR, "redhanded: the recorder cannot open %s\n", argv[1]);
        dr_abort_with_code(125);
    }
    dictionary_init();
    code_init();
    hello();
    modules_init(argv[1]);
    drmgr_register_thread_init_event(thread_init);
    drmgr_register_thread_exit_event(thread_exit);
    drmgr_register_bb_app2app_event(expand, NULL);
    drmgr_register_bb_instrumentation_event(NULL, instrument, NULL);
    drmgr_register_pre_syscall_event(before_system_call);
    drmgr_register_post_syscall_event(after_system_call);
    drmgr_register_kernel_xfer_event(kernel_transfer);
    drmgr_register_signal_event(signalled);
    dr_register_filter_syscall_event(every_system_call);
    dr_register_fork_init_event(fork_init);
    dr_register_exit_event(process_exit);
}
