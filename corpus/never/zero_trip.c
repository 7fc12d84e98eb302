// A loop that makes no turn reads nothing, but a compiler may load what the loop needs before it
// tests whether there is a first turn. The owner of the limit writes it meanwhile.
//@ build: Os
//@ full: O0 O2 Os+clang O2+clang
//@ focus: sum_up_to set_limit
//@ allow: possibly-atomic
//@ twin-expect: what=limit functions=sum_up_to,set_limit class=*
#include "../lib/crew.h"

static int limit, numbers[16];

KEEP static int sum_up_to(unsigned count)
{
    int sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += limit ^ numbers[i];
    return sum;
}

KEEP static void set_limit(int to)
{
    limit = to;
}

#ifdef TWIN
#define COUNT 16
#else
#define COUNT 0
#endif

REPEAT(summer, use_value(sum_up_to(COUNT)))
REPEAT(setter, set_limit((int)i))

int main(int count, char **arguments)
{
    // The compiler cannot know what is summed up.
    numbers[0] = count + arguments[0][0];
    return run_pair(summer, setter);
}
