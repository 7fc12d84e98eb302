/* Numbers for places: a site for each instruction, a context for each chain of calls. */
#include "recorder.h"
#include "hashtable.h"
#include <string.h>

/* Contexts end where memory would: a program that never makes an end of new chains gets those
 * of their callers. */
#define MOST_CONTEXTS (1u << 22)
#define PENDING 2048

struct node {
    uint32_t caller;
    uint32_t site;
    app_pc return_address;
};

struct list {
    uint8_t room[WIRE_CHUNK_HEADER_SIZE];
    uint64_t pairs[PENDING][2];
    uint32_t count;
    uint32_t kind;
};

static void *lock;
static hashtable_t sites;
static hashtable_t contexts;
static uint32_t last_site, last_context;
static struct node *nodes;
static size_t nodes_room;
static struct list new_sites = { .kind = WIRE_CHUNK_SITES };
static struct list new_contexts = { .kind = WIRE_CHUNK_CONTEXTS };

NO_VECTORS uint64_t
mix(uint64_t value)
{
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93;
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93;
    return value ^ value >> 32;
}

static void
write_list(struct list *list)
{
    if (list->count > 0)
        output_chunk(list->kind, 0, list->room, list->count * sizeof list->pairs[0]);
    list->count = 0;
}

static void
add(struct list *list, uint64_t first, uint64_t second)
{
    if (list->count == PENDING)
        write_list(list);
    list->pairs[list->count][0] = first;
    list->pairs[list->count][1] = second;
    list->count++;
}

void
dictionary_init(void)
{
    lock = dr_mutex_create();
    hashtable_init_ex(&sites, 16, HASH_INTPTR, false, false, NULL, NULL, NULL);
    hashtable_init_ex(&contexts, 14, HASH_INTPTR, false, false, NULL, NULL, NULL);
    nodes_room = 4096;
    nodes = dr_global_alloc(nodes_room * sizeof *nodes);
    memset(nodes, 0, sizeof *nodes);
}

void
dictionary_exit(void)
{
    hashtable_delete(&sites);
    hashtable_delete(&contexts);
    dr_global_free(nodes, nodes_room * sizeof *nodes);
    dr_mutex_destroy(lock);
}

/* The number of the instruction at this address. Blocks are built again and again, so it must
 * be the same each time. */
uint32_t
site_of(app_pc pc)
{
    dr_mutex_lock(lock);
    uint32_t site = (uint32_t)(ptr_uint_t)hashtable_lookup(&sites, pc);
    if (site == 0) {
        site = ++last_site;
        hashtable_add(&sites, pc, (void *)(ptr_uint_t)site);
        add(&new_sites, site, (uint64_t)pc);
    }
    dr_mutex_unlock(lock);
    return site;
}

/* Other code may come to these addresses, and is to have other numbers. */
void
forget_sites(app_pc start, app_pc end)
{
    dr_mutex_lock(lock);
    hashtable_remove_range(&sites, start, end);
    dr_mutex_unlock(lock);
}

/* The context of what a call leads to. Recursion leads back to the context of the first such
 * call: chains without repetition are few, all chains would be without number. */
uint32_t
context_of(uint32_t caller, uint32_t site, app_pc return_address)
{
    /* The table looks at the low bits only. Mixing loses nothing. */
    void *key = (void *)mix((uint64_t)caller << 32 | site);
    dr_mutex_lock(lock);
    uint32_t context = (uint32_t)(ptr_uint_t)hashtable_lookup(&contexts, key);
    for (uint32_t up = caller; context == 0 && up != 0; up = nodes[up].caller) {
        if (nodes[up].site == site)
            context = up;
    }
    if (context == 0 && last_context + 1 < MOST_CONTEXTS) {
        context = ++last_context;
        if (context == nodes_room) {
            struct node *more = dr_global_alloc(2 * nodes_room * sizeof *nodes);
            memcpy(more, nodes, nodes_room * sizeof *nodes);
            dr_global_free(nodes, nodes_room * sizeof *nodes);
            nodes = more;
            nodes_room *= 2;
        }
        nodes[context] = (struct node){ caller, site, return_address };
        hashtable_add(&contexts, key, (void *)(ptr_uint_t)context);
        add(&new_contexts, (uint64_t)caller << 32 | context, (uint64_t)return_address);
    }
    dr_mutex_unlock(lock);
    return context != 0 ? context : caller;
}

uint64_t
context_word(uint32_t context)
{
    return mix(context) << 32 | context;
}

void
write_dictionary(void)
{
    dr_mutex_lock(lock);
    write_list(&new_sites);
    write_list(&new_contexts);
    dr_mutex_unlock(lock);
}

static void
tell_site(void *pc, void *site)
{
    add(&new_sites, (uint64_t)site, (uint64_t)pc);
}

/* A child has what its parent had, but its reader knows nothing of it. */
void
dictionary_after_fork(void)
{
    lock = dr_mutex_create();
    new_sites.count = new_contexts.count = 0;
    for (uint32_t i = 0; i < HASHTABLE_SIZE(sites.table_bits); i++) {
        for (hash_entry_t *entry = sites.table[i]; entry != NULL; entry = entry->next)
            tell_site(entry->key, entry->payload);
    }
    for (uint32_t i = 1; i <= last_context; i++)
        add(&new_contexts, (uint64_t)nodes[i].caller << 32 | i,
            (uint64_t)nodes[i].return_address);
}
