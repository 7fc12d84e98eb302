// A file system of two files with two old bugs. An open file counts as a link
// to it, and that count is changed without the lock under which link(2) and
// unlink(2) change it: an atomicity violation. And a write sets the file's
// 64-bit size with nothing to order it after other writes and before stat(2):
// an order violation. Each side has a CPU of its own: a task that is held keeps
// all others of its CPU from running.
//@ setup: mkdir -p /mnt/toy && mount -t toyfs none /mnt/toy
//@ workload: taskset 1 toyfs_user link
//@ workload: taskset 2 toyfs_user open
//@ options: --delay 30ms
//@ cleanup: umount /mnt/toy
//@ expect: what=toyfs_inodes[1].vfs.__i_nlink functions=count_opened,count_link
//@ expect: what=toyfs_inodes[2].vfs.i_size functions=append_bytes,append_bytes
//@ expect: what=toyfs_inodes[2].vfs.i_size functions=append_bytes,tell_size
//@ race: what=toyfs_inodes[1].vfs.__i_nlink truth=harmful category=reference-count
//@ race: what=toyfs_inodes[2].vfs.i_size truth=harmful category=lost-update
#include "../lib/crew.h"
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/rcupdate.h>
#include <linux/uio.h>

// Whose users the caller's are is told since 5.12, by a type of its own since 6.3.
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define TOYFS_ID_MAP struct mnt_idmap *map,
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 12, 0)
#define TOYFS_ID_MAP struct user_namespace *map,
#else
#define TOYFS_ID_MAP
#endif

// The inodes are a table: root, shared, log. Reports can name what is in it.
struct toyfs_inode {
    struct inode vfs;
    unsigned long taken;
    char bytes[256];
};

static struct toyfs_inode toyfs_inodes[8];

// Enough links that those lost by the race never make it zero.
enum { FIRST_LINKS = 30000 };

KEEP static void count_opened(struct inode *inode, int by)
{
    inode->__i_nlink += by;
}

KEEP static void count_link(struct inode *inode, int by)
{
    inode->__i_nlink += by;
}

// The size is read, the bytes are copied behind it, the new size is written.
// A full file starts over.
KEEP static size_t append_bytes(struct toyfs_inode *file, struct iov_iter *from)
{
    loff_t size = file->vfs.i_size;
    size_t room = sizeof(file->bytes) - size % sizeof(file->bytes);
    size_t copied = copy_from_iter(file->bytes + size % sizeof(file->bytes),
                                   min(room, iov_iter_count(from)), from);

    file->vfs.i_size = copied < room ? size + copied : 0;
    return copied;
}

KEEP static loff_t tell_size(const struct inode *inode)
{
    return inode->i_size;
}

static int toyfs_open(struct inode *inode, struct file *file)
{
    count_opened(inode, 1);
    return 0;
}

static int toyfs_release(struct inode *inode, struct file *file)
{
    count_opened(inode, -1);
    return 0;
}

// Called without the inode's lock: taking it is up to the file system.
static ssize_t toyfs_write(struct kiocb *call, struct iov_iter *from)
{
    struct inode *inode = file_inode(call->ki_filp);
    size_t wanted = iov_iter_count(from);
    size_t copied = append_bytes(container_of(inode, struct toyfs_inode, vfs), from);

    return copied || !wanted ? copied : -EFAULT;
}

static int toyfs_getattr(TOYFS_ID_MAP const struct path *path, struct kstat *stat, u32 mask,
                         unsigned int flags)
{
    struct inode *inode = d_inode(path->dentry);

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
    generic_fillattr(map, mask, inode, stat);
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 12, 0)
    generic_fillattr(map, inode, stat);
#else
    generic_fillattr(inode, stat);
#endif
    stat->size = tell_size(inode);
    return 0;
}

// The caller holds the inode's lock, here and in unlink.
static int toyfs_link(struct dentry *old, struct inode *directory, struct dentry *new)
{
    struct inode *inode = d_inode(old);

    count_link(inode, 1);
    ihold(inode);
    dget(new);
    d_instantiate(new, inode);
    return 0;
}

static int toyfs_unlink(struct inode *directory, struct dentry *dentry)
{
    count_link(d_inode(dentry), -1);
    dput(dentry);
    return 0;
}

static const struct file_operations toyfs_file_operations = {
    .owner = THIS_MODULE,
    .open = toyfs_open,
    .release = toyfs_release,
    .write_iter = toyfs_write,
    .llseek = noop_llseek,
};

static const struct inode_operations toyfs_file_inode_operations = {.getattr = toyfs_getattr};

static const struct inode_operations toyfs_directory_operations = {
    .lookup = simple_lookup,
    .link = toyfs_link,
    .unlink = toyfs_unlink,
};

static struct inode *toyfs_alloc_inode(struct super_block *super)
{
    unsigned int i;

    for (i = 0; i < ARRAY_SIZE(toyfs_inodes); i++) {
        if (!test_and_set_bit(0, &toyfs_inodes[i].taken)) {
            inode_init_once(&toyfs_inodes[i].vfs);
            return &toyfs_inodes[i].vfs;
        }
    }
    return NULL;
}

static void toyfs_free_inode(struct inode *inode)
{
    clear_bit_unlock(0, &container_of(inode, struct toyfs_inode, vfs)->taken);
}

static const struct super_operations toyfs_super_operations = {
    .alloc_inode = toyfs_alloc_inode,
    .free_inode = toyfs_free_inode,
    .drop_inode = generic_delete_inode,
    .statfs = simple_statfs,
};

static struct inode *toyfs_new_inode(struct super_block *super, umode_t mode, unsigned int links)
{
    struct inode *inode = new_inode(super);

    if (inode) {
        inode->i_ino = get_next_ino();
        inode->i_mode = mode;
        set_nlink(inode, links);
    }
    return inode;
}

static int toyfs_add_file(struct super_block *super, const char *name)
{
    struct inode *inode = toyfs_new_inode(super, S_IFREG | 0666, FIRST_LINKS);
    struct dentry *dentry;

    if (!inode)
        return -ENOMEM;
    inode->i_op = &toyfs_file_inode_operations;
    inode->i_fop = &toyfs_file_operations;
    dentry = d_alloc_name(super->s_root, name);
    if (!dentry) {
        iput(inode);
        return -ENOMEM;
    }
    d_add(dentry, inode);
    return 0;
}

static int toyfs_fill_super(struct super_block *super, struct fs_context *context)
{
    struct inode *root;
    int error;

    super->s_magic = 0x746f7966;
    super->s_op = &toyfs_super_operations;
    root = toyfs_new_inode(super, S_IFDIR | 0777, 2);
    if (!root)
        return -ENOMEM;
    root->i_op = &toyfs_directory_operations;
    root->i_fop = &simple_dir_operations;
    super->s_root = d_make_root(root);
    if (!super->s_root)
        return -ENOMEM;
    error = toyfs_add_file(super, "shared");
    return error ? error : toyfs_add_file(super, "log");
}

static int toyfs_get_tree(struct fs_context *context)
{
    return get_tree_nodev(context, toyfs_fill_super);
}

static const struct fs_context_operations toyfs_context_operations = {.get_tree = toyfs_get_tree};

static int toyfs_init_context(struct fs_context *context)
{
    context->ops = &toyfs_context_operations;
    return 0;
}

static struct file_system_type toyfs_type = {
    .owner = THIS_MODULE,
    .name = "toyfs",
    .init_fs_context = toyfs_init_context,
    .kill_sb = kill_litter_super,
};

static int __init toyfs_init(void)
{
    return register_filesystem(&toyfs_type);
}

static void __exit toyfs_exit(void)
{
    unregister_filesystem(&toyfs_type);
    // Inodes are freed a grace period after their last use.
    rcu_barrier();
}

module_init(toyfs_init);
module_exit(toyfs_exit);
CREW_LICENSE("a file system with two bugs");
