// A member of a union behind a pointer: the source names the second one.
//@ build: O0 O2 O2+debugfile
//@ full: O2+clang
//@ expect: what=* pointee=message.as_number region=heap functions=set_number,get_number
#include "../lib/crew.h"

struct message {
    int kind;
    union {
        unsigned as_flags;
        int as_number;
    };
};

static struct message *message;

KEEP static void set_number(struct message *in, int to)
{
    in->as_number = to;
}

KEEP static int get_number(const struct message *in)
{
    return in->as_number;
}

REPEAT(setter, set_number(message, (int)i))
REPEAT(getter, if (get_number(message) < 0) exit(1))

int main(void)
{
    message = calloc(1, sizeof *message);
    return run_pair(setter, getter);
}
