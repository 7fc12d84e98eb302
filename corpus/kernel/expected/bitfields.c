// Two bit-fields of one integer: each thread updates its own field, and each
// update loads and stores the whole integer.
//@ expect: what=st functions=set_status,count_packet
//@ race: what=st truth=harmful category=lost-update
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
    set_status(jiffies & 1);
}

static void receive(void)
{
    count_packet();
}

CREW_MODULE(control, receive, "two bit-fields of one word");
