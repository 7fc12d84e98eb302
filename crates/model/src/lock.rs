//! Locks, by the names of the functions that take them and give them back.

/// What a function does to a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockCall {
    /// It takes one.
    Takes,
    /// It gives one back.
    Gives,
}

/// What a function does to a lock, by its name.
#[must_use]
pub fn lock_call(name: &str) -> Option<LockCall> {
    let name = name.to_ascii_lowercase();
    // A load with acquire takes nothing.
    let orders = ["load", "store", "compare", "xchg", "fence"];
    if orders.iter().any(|word| name.contains(word)) {
        return None;
    }
    let gives = [
        "unlock",
        "release",
        "leavecritical",
        "sem_post",
        "mutex_exit",
    ];
    if gives.iter().any(|word| name.contains(word)) {
        return Some(LockCall::Gives);
    }
    let takes = ["acquire", "entercritical", "sem_wait", "mutex_enter"];
    // `lock`, but neither `block` nor `clock` nor `flock`.
    let locks = name.match_indices("lock").any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| name.as_bytes().get(at));
        !before.is_some_and(|byte| matches!(byte, b'b' | b'c' | b'f'))
    });
    (locks || takes.iter().any(|word| name.contains(word))).then_some(LockCall::Takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_known_by_name() {
        for name in [
            "pthread_mutex_lock",
            "_ZNSt5mutex4lockEv",
            "spin_lock_irqsave",
            "my_lock_acquire",
        ] {
            assert_eq!(lock_call(name), Some(LockCall::Takes), "{name}");
        }
        for name in ["pthread_mutex_unlock", "my_lock_release", "up_read_unlock"] {
            assert_eq!(lock_call(name), Some(LockCall::Gives), "{name}");
        }
        for name in [
            "clock_gettime",
            "alloc_block",
            "flock",
            "printf",
            "load_acquire",
        ] {
            assert_eq!(lock_call(name), None, "{name}");
        }
    }
}
