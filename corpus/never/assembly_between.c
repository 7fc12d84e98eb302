// Functions written in assembly between those in C, without lines of their own: the line table's last line
// before them is that of a plain store.
//@ build: O0
//@ full: O2 O0+clang O2+clang
//@ focus: set_level get_level note
//@ twin-expect: what=level functions=set_level,get_level
//@ allow: possibly-atomic
#include "../lib/crew.h"

long level;
static long notes[32];

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

void set_level(long value);
long get_level(void);

#ifdef TWIN
KEEP void set_level(long value)
{
    level = value;
}

KEEP long get_level(void)
{
    return level;
}
#else
KEEP void reset_level(void) { level = 0; }
__asm__(".text\n\t.globl set_level\n\t.type set_level, @function\nset_level:\n\t"
        "movq %rdi, level(%rip)\n\tret\n\t.size set_level, .-set_level");
KEEP long first_level(void) { return level; }
__asm__(".text\n\t.globl get_level\n\t.type get_level, @function\nget_level:\n\t"
        "movq level(%rip), %rax\n\tret\n\t.size get_level, .-get_level");
#endif

REPEAT(writer, set_level(i); note(0))
REPEAT(reader, use_value(get_level()); note(1))

int main(void)
{
    return run_pair(writer, reader);
}
