// A network device counts its packets in the statistics that the kernel keeps
// for it; the kernel adds them up for /proc/net/dev without asking.
//@ workload: while :; do read line < /sys/class/net/corpus0/statistics/tx_packets; done
//@ expect: what=* functions=count_packet,~netdev_stats_to_stats64
#include "../lib/crew.h"
#include <linux/netdevice.h>

static struct net_device *device;

KEEP static void count_packet(struct net_device *dev)
{
    dev->stats.tx_packets++;
    dev->stats.tx_bytes += 64;
}

static void transmitter(void)
{
    count_packet(device);
}

static netdev_tx_t drop_packet(struct sk_buff *packet, struct net_device *dev)
{
    dev_kfree_skb(packet);
    return NETDEV_TX_OK;
}

static const struct net_device_ops operations = {
    .ndo_start_xmit = drop_packet,
};

static void set_up(struct net_device *dev)
{
    dev->netdev_ops = &operations;
    dev->mtu = 1500;
    dev->flags = IFF_NOARP;
}

static int __init core_statistic_init(void)
{
    int error;

    device = alloc_netdev(0, "corpus0", NET_NAME_UNKNOWN, set_up);
    if (!device)
        return -ENOMEM;
    error = register_netdev(device);
    if (error) {
        free_netdev(device);
        return error;
    }
    error = crew_seat(0, transmitter);
    if (error) {
        unregister_netdev(device);
        free_netdev(device);
    }
    return error;
}

static void __exit core_statistic_exit(void)
{
    crew_stop();
    unregister_netdev(device);
    free_netdev(device);
}

module_init(core_statistic_init);
module_exit(core_statistic_exit);
CREW_LICENSE("a module against the kernel's statistics");
