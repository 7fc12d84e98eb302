// Two entries are compared member by member. The owner's number is fixed, and the rest is the owner's alone; but
// compilers compare both members at once, whatever the first says.
//@ build: O2 Os
//@ full: O0 O3 O2+clang O2+dwarf4 O2+nodebug
//@ focus: is_same is_same_by_macro set_part
//@ allow: possibly-atomic
//@ twin-expect: what=entry.part functions=is_same,set_part class=*
#include "../lib/crew.h"

struct entry {
    unsigned short owner, part;
};
static struct entry entry = {1, 0};
static struct entry wanted = {2, 3};

#define SAME(a, b) ((a)->owner == (b)->owner && (a)->part == (b)->part)

KEEP static int is_same(const struct entry *a, const struct entry *b)
{
    return a->owner == b->owner && a->part == b->part;
}

KEEP static int is_same_by_macro(const struct entry *a, const struct entry *b)
{
    return SAME(a, b);
}

KEEP static void set_part(struct entry *of, unsigned short to)
{
    of->part = to;
}

REPEAT(asker, use_value(is_same(&entry, &wanted)); use_value(is_same_by_macro(&entry, &wanted)))
REPEAT(owner, set_part(&entry, (unsigned short)i))

int main(void)
{
#ifdef TWIN
    wanted.owner = 1;
#endif
    return run_pair(asker, owner);
}
