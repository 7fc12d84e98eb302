// A device whose threshold is set by write(2) in any process and obeyed by a
// work item that runs again and again in a kernel worker.
//@ workload: while :; do echo 7 > /dev/threshold; done
//@ expect: what=monitor.threshold functions=store_threshold,check_level
//@ race: what=monitor.threshold truth=benign category=both-values-valid
#include "../lib/crew.h"
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

static struct {
    unsigned int level;
    unsigned int alarms;
    unsigned int threshold;
} monitor = {.threshold = 100};

KEEP static void store_threshold(unsigned int value)
{
    monitor.threshold = value;
}

KEEP static void check_level(unsigned int level)
{
    monitor.level = level;
    if (monitor.level > monitor.threshold)
        monitor.alarms++;
}

static ssize_t threshold_write(struct file *file, const char __user *text, size_t length,
                               loff_t *position)
{
    unsigned int value;
    int error = kstrtouint_from_user(text, length, 0, &value);

    if (error)
        return error;
    store_threshold(value);
    return length;
}

static void measure(struct work_struct *work)
{
    unsigned int level;

    for (level = 0; level < 2000; level++) {
        check_level(level % 200);
        crew_idle(40);
    }
    // A worker that queues itself again leaves its CPU to others in between.
    queue_delayed_work(system_unbound_wq, to_delayed_work(work), 0);
}

static DECLARE_DELAYED_WORK(measurement, measure);

static const struct file_operations threshold_operations = {
    .owner = THIS_MODULE,
    .write = threshold_write,
};

static struct miscdevice threshold_device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "threshold",
    .fops = &threshold_operations,
};

static int __init threshold_device_init(void)
{
    int error = misc_register(&threshold_device);

    if (error)
        return error;
    queue_delayed_work(system_unbound_wq, &measurement, 0);
    return 0;
}

static void __exit threshold_device_exit(void)
{
    misc_deregister(&threshold_device);
    cancel_delayed_work_sync(&measurement);
}

module_init(threshold_device_init);
module_exit(threshold_device_exit);
CREW_LICENSE("a work item against a system call");
