// Members of one object behind a pointer: of a structure without a name, and of an array. The
// same two functions race on both.
//@ build: O0 O2 O2+debugfile
//@ full: O2+clang O2+dwarf4
//@ expect: what=* pointee=shape.y region=heap functions=put,get
//@ expect: what=* pointee=shape.sides[3] region=heap functions=put,get
#include "../lib/crew.h"

struct shape {
    struct {
        int x, y;
    };
    int sides[8];
};

static struct shape *shape;

KEEP static void put(struct shape *it, unsigned value, long side)
{
    it->y = (int)value;
    it->sides[side] = (int)value;
}

KEEP static int get(struct shape *it, long side)
{
    return it->y + it->sides[side];
}

REPEAT(writer, put(shape, i, 3))
REPEAT(reader, use_value(get(shape, 3)))

int main(void)
{
    shape = calloc(1, sizeof *shape);
    return run_pair(writer, reader);
}
