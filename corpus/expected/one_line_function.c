// Functions of one line, with an attribute that a macro gives in one of two ways.
//@ build: O0 O2
//@ full: O2+clang O2+g3 Os
//@ expect: what=level functions=set_level,get_level
#include "../lib/crew.h"

#ifdef SLOW_CHECKS
#define CHECKED __attribute__((optimize("O0")))
#else
#define CHECKED
#endif

int level;

CHECKED KEEP static void set_level(int to) { level = to; }
CHECKED KEEP static int get_level(void) { return level; }

REPEAT(setter, set_level((int)i))
REPEAT(getter, if (get_level() < 0) exit(1))

int main(void)
{
    return run_pair(setter, getter);
}
