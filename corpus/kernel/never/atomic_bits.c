// Flags set and cleared by atomic bit operations; one of them is a lock for
// the record beside them. The twin changes flags and record as plain memory.
//@ focus: change_record
//@ twin-expect: what=record.flags functions=raise_flag,raise_flag
//@ twin-expect: what=record.changes functions=change_record,change_record
#include "../lib/crew.h"
#include <linux/bitops.h>

enum { LOCKED, TOUCHED, DIRTY };

static struct {
    unsigned long flags;
    unsigned long changes;
} record;

KEEP static void raise_flag(unsigned int flag)
{
#ifndef TWIN
    set_bit(flag, &record.flags);
#else
    record.flags |= 1ul << flag;
#endif
}

KEEP static bool lower_flag(unsigned int flag)
{
#ifndef TWIN
    if (!test_bit(flag, &record.flags))
        return false;
    clear_bit(flag, &record.flags);
#else
    record.flags &= ~(1ul << flag);
#endif
    return true;
}

KEEP static void change_record(void)
{
    record.changes++;
}

static void change(unsigned int flag)
{
    raise_flag(flag);
#ifndef TWIN
    if (test_and_set_bit_lock(LOCKED, &record.flags))
        return;
    change_record();
    clear_bit_unlock(LOCKED, &record.flags);
#else
    change_record();
#endif
    lower_flag(flag);
}

static void toucher(void)
{
    change(TOUCHED);
}

static void dirtier(void)
{
    change(DIRTY);
}

CREW_MODULE(toucher, dirtier, "flags and a lock of bits");
