// A ring between one sender and one receiver, from a library that is only a header. The
// indices are atomic and hand the plain slots over.
//@ build: O0 O2
//@ full: O2+clang O3 O2+nodebug O2+stripped O2+clang+lines O2+lto
//@ focus: send_one receive_one spsc_send spsc_receive
//@ twin-expect: what=ring.slots functions=~send_one,~receive_one
#include "../lib/crew.h"
#include "../lib/spsc.h"

struct spsc ring;

KEEP static int send_one(long value)
{
    return spsc_send(&ring, value);
}

KEEP static long receive_one(void)
{
    long value = 0;
    if (!spsc_receive(&ring, &value))
        return -1;
    return value;
}

REPEAT(sender, send_one(i))
REPEAT(receiver, use_value(receive_one()))

int main(void)
{
    return run_pair(sender, receiver);
}
