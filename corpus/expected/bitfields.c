// Two bit-fields of one integer: each thread updates its own field, and each
// update loads and stores the whole integer.
//@ build: O0 O2 O2+stripped+nopie
//@ full: O2+clang
//@ expect: what=st functions=set_status,count_packet
#include "../lib/crew.h"

static struct {
    int status : 4;
    int packets_received : 28;
} st;

KEEP static void set_status(int status)
{
    st.status = status;
}

KEEP static void count_packet(void)
{
    st.packets_received++;
}

static void control(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        set_status((int)(i & 1));
        busy(4);
    }
}

static void receive(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        count_packet();
        busy(4);
    }
}

int main(void)
{
    return run_pair(control, receive);
}
