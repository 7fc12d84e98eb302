// `own ? secret : 7` becomes a conditional move that reads the variable in any case. The
// thread without the right to it never reads it in the source. No data race.
//@ build: O2 O0
//@ full: O2+clang O3 O1 Os O2+nodebug O2+stripped
// Clang reads before it looks in the twin as well.
//@ doubt: *+clang
//@ focus: pick change
//@ twin-expect: what=secret functions=pick,change
#include "../lib/crew.h"

int secret;

KEEP static int pick(int own)
{
    return own ? secret : 7;
}

KEEP static void change(int to)
{
    secret = to;
}

#ifdef TWIN
REPEAT(stranger, use_value(pick(1)))
#else
REPEAT(stranger, use_value(pick(0)))
#endif
REPEAT(owner, change((int)i); use_value(pick(1)))

int main(void)
{
    return run_pair(stranger, owner);
}
