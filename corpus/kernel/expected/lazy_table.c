// A table that is made when it is first needed: a look without the lock, and a
// second one with it. What the table holds is only used with the lock held.
//@ expect: what=table.ready functions=use_table,drop_table
//@ race: what=table.ready truth=benign category=double-check
//@ silent: what=table.made
#include "../lib/crew.h"
#include <linux/mutex.h>

static DEFINE_MUTEX(table_lock);

static struct {
    unsigned long made;
    int ready;
} table;

KEEP static void use_table(void)
{
    if (!table.ready) {
        mutex_lock(&table_lock);
        if (!table.ready) {
            table.made++;
            table.ready = 1;
        }
        mutex_unlock(&table_lock);
    }
}

KEEP static void drop_table(void)
{
    mutex_lock(&table_lock);
    table.ready = 0;
    mutex_unlock(&table_lock);
}

static void user(void)
{
    use_table();
    crew_idle(20);
}

static void owner(void)
{
    drop_table();
    crew_idle(60);
}

CREW_MODULE(user, owner, "a double-checked lock");
