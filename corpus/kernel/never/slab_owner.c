// An object is allocated and filled by one thread, handed over in a mailbox,
// and used and freed by another; its memory is soon the next object's. Every
// access is its owner's. The twin goes on filling after it has handed over.
//@ focus: fill_parcel empty_parcel
//@ twin-expect: what=* functions=fill_parcel,empty_parcel
#include "../lib/crew.h"
#include <linux/rcupdate.h>
#include <linux/slab.h>

struct parcel {
    unsigned long weight;
    unsigned long stamps;
    char address[48];
};

static struct kmem_cache *parcels;
static struct parcel *mailbox;

KEEP static void fill_parcel(struct parcel *parcel)
{
    parcel->weight = 5;
    parcel->stamps = 2;
}

KEEP static unsigned long empty_parcel(struct parcel *parcel)
{
    unsigned long sum = parcel->weight + parcel->stamps;

    parcel->stamps = 0;
    return sum;
}

static void sender(void)
{
    struct parcel *parcel = kmem_cache_alloc(parcels, GFP_KERNEL);
    struct parcel *old;

    if (!parcel)
        return;
    fill_parcel(parcel);
    // The twin must not write to memory that is a page of something else by
    // then; the cache keeps it until nobody is in such a section.
    rcu_read_lock();
    old = xchg(&mailbox, parcel);
#ifdef TWIN
    fill_parcel(parcel);
#endif
    rcu_read_unlock();
    if (old)
        kmem_cache_free(parcels, old);
}

static void recipient(void)
{
    struct parcel *parcel = xchg(&mailbox, NULL);

    if (parcel) {
        (void)empty_parcel(parcel);
        kmem_cache_free(parcels, parcel);
    }
}

static int __init slab_owner_init(void)
{
    int error;

    parcels = kmem_cache_create("corpus_parcel", sizeof(struct parcel), 0,
                                SLAB_TYPESAFE_BY_RCU, NULL);
    if (!parcels)
        return -ENOMEM;
    error = crew_start(sender, recipient);
    if (error)
        kmem_cache_destroy(parcels);
    return error;
}

static void __exit slab_owner_exit(void)
{
    crew_stop();
    if (mailbox)
        kmem_cache_free(parcels, mailbox);
    kmem_cache_destroy(parcels);
}

module_init(slab_owner_init);
module_exit(slab_owner_exit);
CREW_LICENSE("memory of a slab cache and its owners");
