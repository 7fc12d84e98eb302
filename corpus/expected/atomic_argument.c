// The value that is stored atomically is itself read plainly, in the same statement.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O2+g3
//@ expect: what=draft functions=publish,edit
//@ silent: what=published
#include "../lib/crew.h"
#include <stdatomic.h>

int draft;
atomic_int published;

KEEP static void publish(void)
{
    atomic_store_explicit(&published, draft, memory_order_release);
}

KEEP static void edit(int text)
{
    draft = text;
}

REPEAT(publisher, publish())
REPEAT(editor, edit((int)i))

int main(void)
{
    return run_pair(publisher, editor);
}
