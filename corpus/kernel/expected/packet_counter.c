// A statistics counter that nobody guards: two CPUs count packets in one plain
// integer, and some are lost. Nobody relies on the number.
//@ expect: what=port.packets functions=count_packet,count_packet
//@ race: what=port.packets truth=benign category=statistics-counter
#include "../lib/crew.h"

static struct {
    int number;
    unsigned long packets;
} port = {.number = 1};

KEEP static void count_packet(void)
{
    port.packets++;
}

static void receive(void)
{
    count_packet();
    crew_idle(20);
}

CREW_MODULE(receive, receive, "a statistics counter that nobody guards");
