// A loop over every second element is vectorised and reads all of them. Those between are written
// by another thread. The source reads none of these: no data race. In the twin it does, but
// which elements of a vector are meant cannot be seen.
//@ build: O3
//@ full: O0 O2 O3+clang O2+clang O3+nodebug O3+stripped O3+dwarf4
//@ focus: sum_even set_element
//@ allow: possibly-atomic
//@ twin-expect: what=elements functions=sum_even,set_element class=*
#include "../lib/crew.h"

static int elements[128];

KEEP static int sum_even(void)
{
    int sum = 0;
    for (unsigned i = 0; i < 64; i++)
        sum += elements[2 * i];
    return sum;
}

KEEP static void set_element(unsigned at, int to)
{
#ifdef TWIN
    elements[2 * at] = to;
#else
    elements[2 * at + 1] = to;
#endif
}

REPEAT(summer, use_value(sum_even()))
REPEAT(setter, set_element(i & 31, (int)i))

int main(void)
{
    return run_pair(summer, setter);
}
