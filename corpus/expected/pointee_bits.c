// Two bit-fields behind a pointer that share a byte: each thread updates its own.
//@ build: O0 O2 O2+debugfile
//@ full: O2+clang O2+dwarf4
//@ expect: what=* pointee=conn.{a,b} region=heap functions=set_a,set_b
#include "../lib/crew.h"

struct conn {
    int fd;
    unsigned a : 3, b : 5, c : 1;
};

static struct conn *conn;

KEEP static void set_a(struct conn *it, unsigned value)
{
    it->a = value;
}

KEEP static void set_b(struct conn *it, unsigned value)
{
    it->b = value;
}

REPEAT(first, set_a(conn, i))
REPEAT(second, set_b(conn, i))

int main(void)
{
    conn = calloc(1, sizeof *conn);
    return run_pair(first, second);
}
