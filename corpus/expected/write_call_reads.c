// write(2) reads the buffer that another thread fills.
//@ build: O0 O2
//@ full: O2+clang O2+static
//@ expect: what=message functions=compose system_call=write kinds=write,read
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <sys/mman.h>
#include <unistd.h>

char message[64];
static int sink;

KEEP static void compose(size_t at, char letter)
{
    message[at] = letter;
}

REPEAT(composer, compose(20, (char)i))
REPEAT(sender, lseek(sink, 0, SEEK_SET); if (write(sink, message, sizeof message) < 0) exit(1))

int main(void)
{
    sink = memfd_create("sink", 0);
    return sink < 0 ? 1 : run_pair(composer, sender);
}
