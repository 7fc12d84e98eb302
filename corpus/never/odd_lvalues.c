// `_Atomic` memory reached in every odd way that C has: a choice of two addresses, an index in front of its array,
// a row of rows, an array at the end of a structure, a comma, and a pointer that steps on.
//@ full: O2 O2+clang O0 O3+clang O2+dwarf4 O2+dwarf4+clang
//@ focus: put get note
//@ twin-expect: what=grid functions=put,get
//@ allow: possibly-atomic in O2+dwarf4 O2+dwarf4+clang
#include "../lib/crew.h"

#ifdef TWIN
typedef long cell;
#else
typedef _Atomic long cell;
#endif
typedef cell row[4];

struct table {
    int count;
    cell slots[];
};

static cell grid[4][4];
static cell left, right;
static row *rows = grid;
static struct table *table;
static long notes[32];

static struct table *the_table(void)
{
    return table;
}

KEEP static void put(unsigned i)
{
    unsigned at = i & 3;
    grid[1][at] = i;
#ifndef TWIN
    *grid[2] = i;
    at[grid[3]] = i;
    *(i & 1 ? &left : &right) = i;
    (*rows)[at] = i;
    the_table()->slots[at] = i;
    (notes[16]++, table)->slots[1] = i;
    (&left)[0] = i;
#endif
}

KEEP static long get(unsigned i)
{
    unsigned at = i & 3;
    long sum = grid[1][at];
#ifndef TWIN
    sum += **(grid + 2);
    sum += at[3[grid]];
    sum += *(i & 1 ? &right : &left);
    sum += (*rows)[at] + rows[0][0];
    sum += (*the_table()).slots[at];
    cell *step = table->slots;
    sum += *step++;
    sum += *step;
    sum += *&right;
#endif
    return sum;
}

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(writer, put(i))
REPEAT(reader, use_value(get(i)); note(0))

int main(void)
{
    table = calloc(1, sizeof *table + 4 * sizeof(cell));
    return table ? run_pair(writer, reader) : 1;
}
