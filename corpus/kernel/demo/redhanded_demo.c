// The module of `redhanded demo kernel`: a small packet engine, in which four
// things are shared correctly and four are not.
//@ expect: what=engine functions=start_engine,engine_tick contexts=task,softirq
//@ expect: what=statistics.packets functions=count_received,count_sent
//@ expect: what=route.next_hop functions=change_route,look_up_route
//@ expect: what=newest_packet functions=announce_packet,latest_packet
//@ silent: what=guarded_bytes
//@ silent: what=packets_in_flight
//@ silent: what=route.hits
//@ silent: what=next_sequence
#include "../lib/crew.h"
#include <linux/atomic.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

// Wrong: a thread and a timer change different bits of one word.
static struct {
    unsigned int running : 1;
    unsigned int link_up : 1;
    unsigned int ticks : 30;
} engine;

KEEP static void start_engine(void)
{
    engine.running = !engine.running;
}

static struct timer_list engine_timer;

KEEP static void engine_tick(struct timer_list *timer)
{
    engine.ticks++;
    mod_timer(timer, jiffies + 1);
}

// Wrong: both threads count in the same place.
static struct {
    unsigned long packets;
    unsigned long errors;
} statistics;

KEEP static void count_received(void)
{
    statistics.packets++;
}

KEEP static void count_sent(void)
{
    statistics.packets++;
}

// Wrong: the route is looked up under its lock and changed without it.
static struct {
    spinlock_t lock;
    unsigned int next_hop;
    unsigned long hits;
} route = {.lock = __SPIN_LOCK_UNLOCKED(route.lock)};

KEEP static void change_route(unsigned int next_hop)
{
    route.next_hop = next_hop;
}

KEEP static unsigned int look_up_route(void)
{
    unsigned int next_hop;

    spin_lock(&route.lock);
    next_hop = route.next_hop;
    route.hits++;
    spin_unlock(&route.lock);
    return next_hop;
}

// Wrong: a packet is announced by a plain store before anything orders it.
struct packet {
    unsigned int length;
    unsigned int sequence;
};

static struct packet packets[4];
static struct packet *newest_packet = &packets[0];

KEEP static void announce_packet(struct packet *packet)
{
    newest_packet = packet;
}

KEEP static struct packet *latest_packet(void)
{
    return newest_packet;
}

// Right: bytes are counted under a lock.
static DEFINE_SPINLOCK(bytes_lock);
static unsigned long guarded_bytes;

KEEP static void count_bytes(unsigned long bytes)
{
    spin_lock(&bytes_lock);
    guarded_bytes += bytes;
    spin_unlock(&bytes_lock);
}

// Right: an atomic counter.
static atomic_t packets_in_flight = ATOMIC_INIT(0);

KEEP static void packet_leaves(void)
{
    atomic_inc(&packets_in_flight);
}

KEEP static void packet_arrives(void)
{
    atomic_dec(&packets_in_flight);
}

// Right: each CPU has its own.
static DEFINE_PER_CPU(unsigned int, next_sequence);

KEEP static unsigned int take_sequence(void)
{
    return this_cpu_inc_return(next_sequence);
}

static void receiver(void)
{
    static unsigned int hop;

    count_received();
    change_route(++hop % 16);
    count_bytes(1500);
    packet_arrives();
    (void)latest_packet();
    (void)take_sequence();
}

static void sender(void)
{
    start_engine();
    count_sent();
    (void)look_up_route();
    count_bytes(64);
    packet_leaves();
    announce_packet(&packets[take_sequence() % ARRAY_SIZE(packets)]);
}

static int __init redhanded_demo_init(void)
{
    // The timer is the receiver's neighbour, so that it meets the sender.
    int error = crew_start(sender, receiver);

    if (error)
        return error;
    timer_setup(&engine_timer, engine_tick, TIMER_PINNED);
    engine_timer.expires = jiffies + 1;
    add_timer_on(&engine_timer, crew_cpu(1));
    return 0;
}

static void __exit redhanded_demo_exit(void)
{
    timer_delete_sync(&engine_timer);
    crew_stop();
}

module_init(redhanded_demo_init);
module_exit(redhanded_demo_exit);
CREW_LICENSE("a packet engine with four seeded races");
