/* DynamoRIO reads its settings from the environment. The program is not to find them there. */
#include "recorder.h"
#include <string.h>

/* Exported by DynamoRIO's library, though not in its headers: where it looks for variables. */
extern void
dynamorio_set_envp(char **envp);

static app_pc entry;
static bool hidden;

static bool
is_ours(const char *variable)
{
    /* The second is what DynamoRIO makes of variables that it has read. */
    return strncmp(variable, "DYNAMORIO_", 10) == 0 || strcmp(variable, "__disabled__") == 0;
}

/* Runs at the program's first instruction, when the stack is as the kernel makes it: the number
 * of arguments, pointers to them, a zero, pointers to variables, a zero, and directly after it the
 * auxiliary vector, pairs of words that end with a zero. What follows a removed variable moves
 * down, so the stack pointer stays what it is. */
static void
hide(void)
{
    if (hidden)
        return;
    hidden = true;
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_CONTROL };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    uint64_t *stack = (uint64_t *)mc.xsp;
    uint64_t arguments = stack[0];
    if (arguments > 1 << 20 || stack[1 + arguments] != 0)
        return;
    char **variables = (char **)(stack + 2 + arguments);
    size_t count = 0, kept = 0, auxiliary = 2;
    while (variables[count] != NULL)
        count++;
    /* DynamoRIO needs them for the programs that this one executes. */
    char **all = dr_global_alloc((count + 1) * sizeof *all);
    memcpy(all, variables, (count + 1) * sizeof *all);
    dynamorio_set_envp(all);
    for (size_t i = 0; i < count; i++) {
        if (!is_ours(all[i]))
            variables[kept++] = all[i];
    }
    variables[kept] = NULL;
    uint64_t *vector = (uint64_t *)(variables + count + 1);
    while (vector[auxiliary - 2] != 0)
        auxiliary += 2;
    memmove(variables + kept + 1, vector, auxiliary * sizeof *vector);
}

void
instrument_entry(void *drcontext, instrlist_t *list, instr_t *where)
{
    app_pc pc = instr_get_app_pc(where);
    if (entry == NULL)
        entry = pc;
    if (pc == entry && !hidden) {
        dr_insert_clean_call_ex(drcontext, list, where, (void *)hide,
                                DR_CLEANCALL_READS_APP_CONTEXT, 0);
    }
}
