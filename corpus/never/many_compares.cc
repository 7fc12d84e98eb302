// Entries are compared member by member. The owner's number is fixed, and the rest is the owner's alone; but Clang
// makes one call of bcmp of all compares, which reads on behind the first difference.
//@ build: O2+clang O2
//@ full: O0 O3+clang O2+clang+nodebug O2+clang+static
//@ focus: is_same set
//@ allow: possibly-atomic
//@ twin-expect: what=table functions=~is_same,set
#include "../lib/crew.h"

struct entry {
    long owner, a, b, c, d, e, f, g, h, i, j, k;
};
static struct entry table[2] = {{1}, {2}};

KEEP static bool is_same(const struct entry &one, const struct entry &other)
{
    return one.owner == other.owner && one.a == other.a && one.b == other.b && one.c == other.c && one.d == other.d
        && one.e == other.e && one.f == other.f && one.g == other.g && one.h == other.h && one.i == other.i
        && one.j == other.j && one.k == other.k;
}

KEEP static void set(struct entry &of, long to)
{
    of.a = to;
    of.d = to;
    of.k = to;
}

REPEAT(asker, use_value(is_same(table[0], table[1])))
REPEAT(owner, set(table[1], i & 1))

int main()
{
#ifdef TWIN
    table[1].owner = 1;
#endif
    return run_pair(asker, owner);
}
