// A table that one thread changes under a semaphore for writing, and both
// read under it together.
//@ focus: change_table sum_table
//@ twin-expect: what=table functions=change_table,sum_table
#include "../lib/crew.h"
#include <linux/rwsem.h>

static DECLARE_RWSEM(table_lock);
static long table[4];

KEEP static void change_table(void)
{
    table[0]++;
    table[1]--;
}

KEEP static long sum_table(void)
{
    return table[0] + table[1];
}

static void reader(void)
{
#ifndef TWIN
    down_read(&table_lock);
#endif
    (void)sum_table();
#ifndef TWIN
    up_read(&table_lock);
#else
    (void)table_lock;
#endif
}

static void writer(void)
{
#ifndef TWIN
    down_write(&table_lock);
#endif
    change_table();
#ifndef TWIN
    up_write(&table_lock);
#endif
    crew_idle(100);
    reader();
}

CREW_MODULE(writer, reader, "a table under a semaphore of readers and a writer");
