//! Functions of Linux whose plain accesses synchronise.
//!
//! A kernel has its own atomics and locks, made of inlined functions and assembly. The load
//! of an `atomic_read` is a plain move, and so is the store that releases a spinlock. Only
//! the name of the function reveals them. The names have been stable for many years; new ones
//! are added here.

/// Which accesses a family covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// Those of the function itself. Anything can be inlined into it: `kref_put` contains the
    /// object's own release function.
    Itself,
    /// Also those of everything inlined into it.
    Inlined,
}

/// Functions that synchronise for the same reason.
struct Family {
    /// Whole names, or prefixes, which end with `*`.
    names: &'static [&'static str],
    reach: Reach,
    /// What a report calls them.
    reason: &'static str,
}

const FAMILIES: [Family; 9] = [
    // Counters: read and set are plain moves of a volatile word.
    Family {
        names: &["refcount_*", "__refcount_*", "kref_*"],
        reach: Reach::Itself,
        reason: "reference count",
    },
    // Atomic without two leading underscores; `__set_bit` is plain.
    Family {
        names: &[
            "test_bit",
            "_test_bit",
            "arch_test_bit",
            "constant_test_bit",
            "const_test_bit",
            "variable_test_bit",
            "generic_test_bit",
            "test_bit_acquire",
            "_test_bit_acquire",
            "arch_test_bit_acquire",
            "generic_test_bit_acquire",
            "const_test_bit_acquire",
            "set_bit",
            "arch_set_bit",
            "clear_bit",
            "arch_clear_bit",
            "change_bit",
            "arch_change_bit",
            "test_and_*",
            "arch_test_and_*",
        ],
        reach: Reach::Itself,
        reason: "atomic bit operation",
    },
    // A bit used as a lock: the plain store that clears it is the release.
    Family {
        names: &[
            "clear_bit_unlock*",
            "arch_clear_bit_unlock*",
            "__clear_bit_unlock",
            "arch___clear_bit_unlock",
            "xor_unlock_is_negative_byte",
            "arch_xor_unlock_is_negative_byte",
            "bit_spin_*",
            "__bit_spin_unlock",
        ],
        reach: Reach::Inlined,
        reason: "bit lock",
    },
    // Their only access is a READ_ONCE or WRITE_ONCE, which were functions before 5.8.
    Family {
        names: &[
            "__read_once_size*",
            "__write_once_size*",
            "list_empty",
            "list_empty_careful",
            "hlist_empty",
            "hlist_unhashed_lockless",
            "llist_empty",
            "skb_queue_empty_lockless",
        ],
        reach: Reach::Itself,
        reason: "reads or writes once",
    },
    // The lock word and the queue of waiters: a waiter spins on a node that its
    // predecessor writes.
    Family {
        names: &[
            "queued_spin_*",
            "native_queued_spin_*",
            "__pv_queued_spin_*",
            "virt_spin_lock",
            "arch_spin_*",
            "do_raw_spin_*",
            "_raw_spin_*",
            "__raw_spin_*",
            "queued_read_*",
            "queued_write_*",
            "arch_read_lock*",
            "arch_read_unlock*",
            "arch_read_trylock*",
            "arch_write_lock*",
            "arch_write_unlock*",
            "arch_write_trylock*",
            "_raw_read_*",
            "_raw_write_*",
            // But not __raw_readl and the like, which access devices.
            "__raw_read_lock*",
            "__raw_read_unlock*",
            "__raw_read_trylock*",
            "__raw_write_lock*",
            "__raw_write_unlock*",
            "__raw_write_trylock*",
            "mcs_spin_*",
            "osq_*",
            "clear_pending",
            "clear_pending_set_locked",
            "xchg_tail",
        ],
        reach: Reach::Inlined,
        reason: "inside a spinlock",
    },
    // Waiters read owner and count to decide whether to spin.
    Family {
        names: &["mutex_*", "__mutex_*", "ww_mutex_*", "__ww_mutex_*"],
        reach: Reach::Inlined,
        reason: "inside a mutex",
    },
    Family {
        names: &[
            "rwsem_*",
            "__rwsem_*",
            "down_read*",
            "__down_read*",
            "down_write*",
            "__down_write*",
            "up_read*",
            "__up_read*",
            "up_write*",
            "__up_write*",
            "downgrade_write",
            "__downgrade_write",
            "percpu_down_*",
            "percpu_up_*",
            "__percpu_down_*",
            "__percpu_up_*",
            "percpu_rwsem_*",
            "__percpu_rwsem_*",
        ],
        reach: Reach::Inlined,
        reason: "inside a semaphore",
    },
    // The counter that readers compare. The data it guards is not accessed here.
    Family {
        names: &[
            "__seqprop_*",
            "seqprop_*",
            "__seqcount_*",
            "read_seqcount_*",
            "__read_seqcount_*",
            "do_read_seqcount_*",
            "do___read_seqcount_*",
            "raw_read_seqcount*",
            "raw_seqcount_*",
            "write_seqcount_*",
            "do_write_seqcount_*",
            "raw_write_seqcount_*",
            "do_raw_write_seqcount_*",
            "read_seqbegin*",
            "read_seqretry*",
            "write_seqlock*",
            "write_sequnlock*",
        ],
        reach: Reach::Inlined,
        reason: "inside a sequence counter",
    },
    // Lock and count share a word, and a plain change of the count is made under the lock.
    Family {
        names: &["lockref_*"],
        reach: Reach::Inlined,
        reason: "inside a lockref",
    },
];

/// How an access in the function `name` synchronises, if the name says that it does.
/// `innermost` is whether the access is the function's own, not one inlined into it.
pub(super) fn synchronises(name: &str, innermost: bool) -> Option<String> {
    // Clones of a function have a suffix after a dot.
    let name = name.split('.').next().unwrap_or(name);
    let reason = if innermost && is_atomic(name) {
        "atomic operation"
    } else {
        let family = FAMILIES.iter().find(|family| {
            (innermost || family.reach == Reach::Inlined)
                && family.names.iter().any(|pattern| matches(pattern, name))
        })?;
        family.reason
    };
    Some(format!("{name}, {reason}"))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// Whether `name` is an operation on an atomic type. There are hundreds, generated by rule.
/// Other functions begin with the same word: `atomic_open` opens a file, and
/// `atomic_notifier_call_chain` calls others.
fn is_atomic(name: &str) -> bool {
    const BEFORE: [&str; 4] = ["arch_", "raw_", "generic_", "__"];
    const TYPES: [&str; 3] = ["atomic_long_", "atomic64_", "atomic_"];
    const OPERATIONS: [&str; 12] = [
        "read",
        "set",
        "add",
        "sub",
        "inc",
        "dec",
        "and",
        "or",
        "xor",
        "xchg",
        "cmpxchg",
        "try_cmpxchg",
    ];
    let begins = |rest: &str| OPERATIONS.iter().any(|word| rest.starts_with(word));
    let name = BEFORE
        .iter()
        .find_map(|before| name.strip_prefix(before))
        .unwrap_or(name);
    TYPES
        .iter()
        .find_map(|kind| name.strip_prefix(kind))
        .is_some_and(|rest| {
            begins(rest)
                || rest.starts_with("cond_read_")
                || rest.strip_prefix("fetch_").is_some_and(begins)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_synchronise() {
        for name in [
            "atomic_read",
            "arch_atomic64_set_release",
            "raw_atomic_fetch_add_relaxed",
            "atomic_long_try_cmpxchg",
            "atomic_fetch_inc",
            "refcount_read",
            "kref_get",
            "constant_test_bit",
            "arch___clear_bit_unlock",
            "list_empty",
            "osq_lock",
            "native_queued_spin_lock_slowpath",
            "__mutex_lock.constprop.0",
            "rwsem_spin_on_owner",
            "raw_write_seqcount_begin",
        ] {
            assert!(synchronises(name, true).is_some(), "{name}");
        }
        assert_eq!(
            synchronises("__mutex_lock.constprop.0", false).as_deref(),
            Some("__mutex_lock, inside a mutex")
        );
    }

    #[test]
    fn names_that_do_not() {
        for name in [
            "atomic_open",
            "atomic_notifier_call_chain",
            "atomic_pool_expand",
            "__set_bit",
            "arch___set_bit",
            "___clear_bit",
            "list_empty_stuff",
            "__raw_readl",
            "__list_add",
            "mutex",
            "do_sys_open",
            "",
        ] {
            assert_eq!(synchronises(name, true), None, "{name}");
        }
    }

    #[test]
    fn what_is_inlined_into_a_reference_count_is_not_its_own() {
        assert!(synchronises("kref_put", true).is_some());
        assert!(synchronises("kref_put", false).is_none());
        assert!(synchronises("atomic_read", false).is_none());
    }
}
