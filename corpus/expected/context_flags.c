// One thread clears a flag of a word while another sets a different one: the
// set can be swallowed. At -O2 both are single instructions, and still not atomic.
//@ build: O0 O2 O2+static O2+static-pie
//@ full: O2+clang
//@ expect: what=context.flags functions=run_context,restart_callback
#include "../lib/crew.h"

enum { RUNNING = 0x10, NEED_CALLBACK = 0x20 };

struct context {
    void *stack;
    unsigned priority;
    unsigned flags;
};

static struct context context = {NULL, 3, 0x11};

KEEP static void run_context(struct context *ctx)
{
    ctx->flags &= ~(unsigned)RUNNING;
}

KEEP static void restart_callback(struct context *ctx)
{
    ctx->flags |= NEED_CALLBACK;
}

static void runner(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        run_context(&context);
        busy(4);
    }
}

static void restarter(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        restart_callback(&context);
        busy(4);
    }
}

int main(void)
{
    return run_pair(runner, restarter);
}
