// A file in /proc that one process writes and another reads: two system calls
// at the same time, and a pair of settings that should change together.
//@ workload: while :; do echo 3 > /proc/settings; done
//@ workload: while :; do read low high < /proc/settings; done
//@ expect: what=settings.high functions=store_settings,show_settings
//@ race: what=settings.high truth=harmful category=torn-value
#include "../lib/crew.h"
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

static struct {
    unsigned int low;
    unsigned int high;
} settings;

KEEP static void store_settings(unsigned int low)
{
    settings.low = low;
    settings.high = low * 2;
}

KEEP static unsigned int show_settings(unsigned int *low)
{
    *low = settings.low;
    return settings.high;
}

static int settings_show(struct seq_file *file, void *unused)
{
    unsigned int low;
    unsigned int high = show_settings(&low);

    seq_printf(file, "%u %u\n", low, high);
    return 0;
}

static int settings_open(struct inode *inode, struct file *file)
{
    return single_open(file, settings_show, NULL);
}

static ssize_t settings_write(struct file *file, const char __user *text, size_t length,
                              loff_t *position)
{
    unsigned int low;
    int error = kstrtouint_from_user(text, length, 0, &low);

    if (error)
        return error;
    store_settings(low);
    return length;
}

static const struct proc_ops settings_operations = {
    .proc_open = settings_open,
    .proc_read = seq_read,
    .proc_lseek = seq_lseek,
    .proc_write = settings_write,
    .proc_release = single_release,
};

static int __init proc_settings_init(void)
{
    return proc_create("settings", 0644, NULL, &settings_operations) ? 0 : -ENOMEM;
}

static void __exit proc_settings_exit(void)
{
    remove_proc_entry("settings", NULL);
}

module_init(proc_settings_init);
module_exit(proc_settings_exit);
CREW_LICENSE("two system calls of two processes");
