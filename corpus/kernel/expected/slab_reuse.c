// An object is freed while somebody still uses it, and its memory is at once
// handed out again: the stale user and the new owner meet in the same bytes.
// The cache keeps its memory until an RCU grace period is over and its own
// links outside the objects, so the stale update hurts nobody else.
//@ expect: what=* pointee=session.uses functions=use_stale_session,open_session
#include "../lib/crew.h"
#include <linux/rcupdate.h>
#include <linux/slab.h>

struct session {
    unsigned long key;
    unsigned long uses;
    char peer[48];
};

static struct kmem_cache *sessions;
static struct session *latest;

KEEP static struct session *open_session(void)
{
    struct session *session = kmem_cache_alloc(sessions, GFP_KERNEL);

    if (session)
        session->uses = 0;
    return session;
}

// Nothing keeps the session from being freed meanwhile.
KEEP static void use_stale_session(struct session *session)
{
    session->uses++;
}

static void replace(void)
{
    struct session *old = latest;

    if (old) {
        kmem_cache_free(sessions, old);
        smp_store_release(&latest, open_session());
    }
}

static void use(void)
{
    struct session *session;

    rcu_read_lock();
    session = smp_load_acquire(&latest);
    if (session)
        use_stale_session(session);
    rcu_read_unlock();
}

static int __init slab_reuse_init(void)
{
    int error;

    sessions = kmem_cache_create("corpus_session", sizeof(struct session), 0,
                                 SLAB_TYPESAFE_BY_RCU, NULL);
    if (!sessions)
        return -ENOMEM;
    latest = open_session();
    error = latest ? crew_start(replace, use) : -ENOMEM;
    if (error) {
        if (latest)
            kmem_cache_free(sessions, latest);
        kmem_cache_destroy(sessions);
    }
    return error;
}

static void __exit slab_reuse_exit(void)
{
    crew_stop();
    if (latest)
        kmem_cache_free(sessions, latest);
    kmem_cache_destroy(sessions);
}

module_init(slab_reuse_init);
module_exit(slab_reuse_exit);
CREW_LICENSE("freed and reused memory of a slab cache");
