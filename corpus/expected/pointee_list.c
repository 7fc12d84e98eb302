// Members of items on the heap: one side reaches an item through a table, the other through a list.
//@ build: O0 O2 O2+debugfile
//@ full: O2+clang O2+dwarf4 Os
//@ expect: what=* pointee=item.flags region=heap functions=mark,count_marked
#include "../lib/crew.h"

typedef struct item {
    struct item *next;
    unsigned time;
    unsigned short references;
    unsigned short flags;
} item;

struct table {
    int used;
    item *head;
};

static struct table *table;

KEEP static void mark(item *it, int to)
{
    it->flags = (unsigned short)to;
}

KEEP static int count_marked(struct table *in)
{
    int marked = 0;
    for (item *it = in->head; it != NULL; it = it->next)
        marked += it->flags != 0;
    return marked;
}

REPEAT(marker, mark(table->head, (int)i))
REPEAT(counter, if (count_marked(table) > 3) exit(1))

int main(void)
{
    table = calloc(1, sizeof *table);
    for (int i = 0; i < 3; i++) {
        item *it = calloc(1, sizeof *it);
        it->next = table->head;
        table->head = it;
    }
    return run_pair(marker, counter);
}
