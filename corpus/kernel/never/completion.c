// A message handed from one thread to another and back by two completions.
// The twin does not wait.
//@ focus: write_message read_message
//@ twin-expect: what=message functions=write_message,read_message
#include "../lib/crew.h"
#include <linux/completion.h>

static DECLARE_COMPLETION(written);
static DECLARE_COMPLETION(taken);
static struct {
    unsigned long number;
    unsigned long check;
} message;

KEEP static void write_message(void)
{
    message.number++;
    message.check = ~message.number;
}

KEEP static bool read_message(void)
{
    return message.check == ~message.number;
}

// Waits only so long, because the module may be unloaded meanwhile.
static bool wait(struct completion *what)
{
#ifndef TWIN
    return wait_for_completion_timeout(what, HZ / 10) != 0;
#else
    return true;
#endif
}

static void producer(void)
{
    if (!wait(&taken))
        return;
    write_message();
#ifndef TWIN
    complete(&written);
#endif
}

static void consumer(void)
{
    if (!wait(&written))
        return;
    (void)read_message();
#ifndef TWIN
    complete(&taken);
#endif
}

static int __init completion_init(void)
{
    complete(&taken);
    return crew_start(producer, consumer);
}

static void __exit completion_exit(void)
{
    crew_stop();
}

module_init(completion_init);
module_exit(completion_exit);
CREW_LICENSE("a message and two completions");
