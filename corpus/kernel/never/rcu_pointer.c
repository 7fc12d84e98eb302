// A configuration that is replaced as a whole: made, filled, published by RCU,
// and freed when no reader can hold it. The twin publishes it before it is
// filled.
//@ focus: fill_config use_config
//@ twin-expect: what=* functions=fill_config,use_config
#include "../lib/crew.h"
#include <linux/rcupdate.h>
#include <linux/slab.h>

struct config {
    struct rcu_head head;
    unsigned long limit;
    unsigned long interval;
};

static struct config __rcu *current_config;

KEEP static void fill_config(struct config *config, unsigned long limit)
{
    config->limit = limit;
    config->interval = limit * 2;
}

KEEP static unsigned long use_config(const struct config *config)
{
    return config->limit + config->interval;
}

static void writer(void)
{
    static unsigned long limit;
    struct config *config = kmalloc(sizeof(*config), GFP_KERNEL);
    struct config *old;

    if (!config)
        return;
#ifndef TWIN
    fill_config(config, ++limit);
    old = rcu_replace_pointer(current_config, config, true);
#else
    old = rcu_replace_pointer(current_config, config, true);
    fill_config(config, ++limit);
#endif
    if (old)
        kfree_rcu(old, head);
    // Old ones must not pile up faster than grace periods end.
    if (limit % 256 == 0)
        synchronize_rcu();
}

static void reader(void)
{
    struct config *config;

    rcu_read_lock();
    config = rcu_dereference(current_config);
    if (config)
        (void)use_config(config);
    rcu_read_unlock();
}

static int __init rcu_pointer_init(void)
{
    return crew_start(writer, reader);
}

static void __exit rcu_pointer_exit(void)
{
    crew_stop();
    kfree(rcu_dereference_protected(current_config, true));
}

module_init(rcu_pointer_init);
module_exit(rcu_pointer_exit);
CREW_LICENSE("a pointer published by RCU");
