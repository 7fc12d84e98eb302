// A size that is passed on.
//@ race: what=buffer_size truth=harmful category=steers-access
//@ race: what=copy_length truth=harmful category=steers-access
//@ reason: the buffer has one size and is used with another
#include "../lib/crew.h"
#include <string.h>

static unsigned long buffer_size = 16;
static unsigned long copy_length = 8;
static char source[64], target[64];

KEEP static void allocate(void)
{
    char *buffer = malloc(buffer_size);
    use_value(buffer);
    free(buffer);
}
KEEP static void copy(void) { memcpy(target, source, copy_length); }
KEEP static void set_size(unsigned i) { buffer_size = 16 + (i & 15); }
KEEP static void set_length(unsigned i) { copy_length = 32 + (i & 31); }

REPEAT(user, allocate(); busy(1); copy())
REPEAT(owner, set_size(i); busy(1); set_length(i))

int main(void)
{
    return run_pair(user, owner);
}
