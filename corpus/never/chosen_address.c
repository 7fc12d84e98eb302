// A pointer is chosen among the addresses of two words, and one of them is read through it. Compilers read
// the word that the other thread writes as well, and then choose between the values.
//@ build: Os O2+clang
//@ full: O0 O2 O3 O2+clang+lto O2+nodebug O2+g1
//@ focus: pick pick_member set
//@ allow: possibly-atomic
//@ twin-expect: what=theirs functions=pick,set class=*
#include "../lib/crew.h"

static int mine, theirs;
static struct {
    long mine, theirs;
} pair;

KEEP static int pick(int own)
{
    int *chosen = own ? &mine : &theirs;
    return *chosen;
}

KEEP static long pick_member(int own)
{
    long *chosen = &pair.theirs;
    if (own)
        chosen = &pair.mine;
    return *chosen + 1;
}

KEEP static void set(int to)
{
    theirs = to;
    pair.theirs = to;
}

#ifdef TWIN
#define OWN 0
#else
#define OWN 1
#endif

REPEAT(reader, use_value(pick(OWN)); use_value((int)pick_member(OWN)))
REPEAT(writer, set((int)i); use_value(pick(0)); use_value((int)pick_member(0)))

int main(void)
{
    return run_pair(reader, writer);
}
