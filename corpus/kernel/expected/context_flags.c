// One thread clears a flag of a word while another sets a different one: the
// set can be swallowed. Both are single instructions, and still not atomic.
//@ expect: what=context.flags functions=run_context,restart_callback
//@ race: what=context.flags truth=harmful category=lost-update
#include "../lib/crew.h"

enum { RUNNING = 0x10, NEED_CALLBACK = 0x20 };

struct context {
    void *stack;
    unsigned int priority;
    unsigned int flags;
};

static struct context context = {NULL, 3, 0x11};

KEEP static void run_context(struct context *ctx)
{
    ctx->flags &= ~(unsigned int)RUNNING;
}

KEEP static void restart_callback(struct context *ctx)
{
    ctx->flags |= NEED_CALLBACK;
}

static void runner(void)
{
    run_context(&context);
}

static void restarter(void)
{
    restart_callback(&context);
}

CREW_MODULE(runner, restarter, "flags of one word, cleared and set");
