// ioctl(FIONBIO) reads its argument while another thread writes it.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=mode functions=toggle system_call=ioctl kinds=write,read
#include "../lib/crew.h"
#include <sys/ioctl.h>
#include <unistd.h>

static int mode;
static int ends[2];

KEEP static void toggle(int to)
{
    mode = to;
}

REPEAT(toggler, toggle((int)(i & 1)))
REPEAT(applier, if (ioctl(ends[0], FIONBIO, &mode) != 0) exit(1))

int main(void)
{
    if (pipe(ends) != 0)
        return 1;
    return run_pair(toggler, applier);
}
