//! The names that mean a synchronising access: library functions, builtins and macros of C
//! and C++.

/// What a function among the frames of an access says about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Function {
    /// Its accesses are atomic or volatile.
    Synchronising,
    /// A function of a standard library, which such a function may have called.
    Library,
    /// Anything else.
    Other,
}

/// Judges a function by its demangled name.
pub(super) fn function(name: &str) -> Function {
    let name = name.replace("::__1::", "::").replace("::__cxx11::", "::");
    if is_synchronising_function(&name) {
        return Function::Synchronising;
    }
    const LIBRARIES: [&str; 5] = ["std::", "core::", "alloc::", "__gnu_cxx::", "<core::"];
    if LIBRARIES.iter().any(|start| name.starts_with(start)) {
        Function::Library
    } else {
        Function::Other
    }
}

fn is_synchronising_function(name: &str) -> bool {
    const FAMILIES: [&str; 12] = [
        "std::atomic",
        "std::__atomic_",
        "std::__cxx_atomic",
        "__gnu_cxx::__atomic_",
        "__gnu_cxx::__exchange_and_add",
        "boost::atomic",
        "core::sync::atomic::",
        "<core::sync::atomic::",
        "core::intrinsics::atomic_",
        "core::intrinsics::volatile_",
        "portable_atomic::",
        "<portable_atomic::",
    ];
    let method = last_segment(name);
    if name.starts_with("core::ptr::") || name.starts_with("<*") {
        return matches!(method, "read_volatile" | "write_volatile");
    }
    // Creating an atomic, and accessing one that is not shared, are plain accesses.
    const PLAIN: [&str; 5] = ["new", "get_mut", "into_inner", "from_mut", "default"];
    FAMILIES.iter().any(|family| name.starts_with(family))
        && !PLAIN.contains(&method)
        && !is_constructor(name)
}

/// The name after the last `::` outside template arguments.
fn last_segment(name: &str) -> &str {
    let mut depth = 0i32;
    let mut start = 0;
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if at > 0 && bytes.get(at - 1) != Some(&b'-') => depth -= 1,
            b':' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    let segment = name.get(start..).unwrap_or(name);
    segment.split('<').next().unwrap_or(segment)
}

/// Whether a C++ name ends in `Class::Class` or `Class::~Class`.
fn is_constructor(name: &str) -> bool {
    let method = last_segment(name);
    let Some(class) = name
        .strip_suffix(method)
        .and_then(|class| class.strip_suffix("::"))
    else {
        return false;
    };
    let class = last_segment(class);
    !class.is_empty() && method.trim_start_matches('~') == class
}

/// Whether a word in C or C++ source alone marks an atomic or volatile access.
pub(super) fn marks(word: &str) -> bool {
    const STARTS: [&str; 14] = [
        "__atomic_",
        "__sync_",
        "__c11_atomic_",
        "__scoped_atomic_",
        "atomic_",
        "g_atomic_",
        "ck_pr_",
        "Interlocked",
        "_Interlocked",
        "rcu_dereference",
        "smp_load_",
        "smp_store_",
        "smp_cond_load_",
        "srcu_dereference",
    ];
    const WORDS: [&str; 15] = [
        "volatile",
        "__volatile__",
        "__volatile",
        "_Atomic",
        "READ_ONCE",
        "WRITE_ONCE",
        "ACCESS_ONCE",
        "READ_ONCE_NOCHECK",
        "rcu_assign_pointer",
        "rcu_access_pointer",
        "rcu_replace_pointer",
        "RCU_INIT_POINTER",
        "atomic_ref",
        "cmpxchg",
        "data_race",
    ];
    // Classes of the C++ library, whose constructors make plain accesses.
    const CLASSES: [&str; 2] = ["__atomic_base", "__atomic_flag_base"];
    !CLASSES.contains(&word)
        && (WORDS.contains(&word) || STARTS.iter().any(|start| word.starts_with(start)))
}

/// Whether the operation that a marking word names loads with plain instructions, and whether
/// it stores with them. A read-modify-write stores with a locked instruction, but may load
/// before it.
pub(super) fn direction(word: &str) -> (bool, bool) {
    const FAMILIES: [&str; 5] = [
        "__atomic_",
        "__sync_",
        "__c11_atomic_",
        "__scoped_atomic_",
        "atomic_",
    ];
    match word {
        "READ_ONCE" | "READ_ONCE_NOCHECK" | "rcu_access_pointer" => return (true, false),
        "WRITE_ONCE" | "rcu_assign_pointer" | "RCU_INIT_POINTER" => return (false, true),
        _ if [
            "rcu_dereference",
            "srcu_dereference",
            "smp_load_",
            "smp_cond_load_",
        ]
        .iter()
        .any(|start| word.starts_with(start)) =>
        {
            return (true, false);
        }
        _ if word.starts_with("smp_store_") => return (false, true),
        _ => {}
    }
    let Some(operation) = FAMILIES.iter().find_map(|start| word.strip_prefix(start)) else {
        return (true, true);
    };
    let begins = |starts: &[&str]| starts.iter().any(|start| operation.starts_with(start));
    if begins(&[
        "load",
        "fetch",
        "exchange",
        "compare",
        "test_and_set",
        "val_",
        "bool_",
    ]) {
        (true, false)
    } else if begins(&["store", "clear", "flag_clear", "lock_release", "init"]) {
        (false, true)
    } else {
        (true, true)
    }
}

/// Whether a word begins inline assembly. The source does not tell what that accesses.
pub(super) fn is_assembly(word: &str) -> bool {
    matches!(
        word,
        "asm" | "__asm__" | "__asm" | "asm_inline" | "asm_volatile_goto"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_functions_by_name() {
        for name in [
            "std::__atomic_base<int>::load",
            "std::atomic<unsigned long>::operator=",
            "std::atomic_load_explicit<int>",
            "std::atomic_flag::test_and_set",
            "std::__1::__cxx_atomic_load<int>",
            "core::sync::atomic::AtomicU32::load",
            "core::sync::atomic::atomic_load",
            "core::ptr::read_volatile",
            "core::ptr::mut_ptr::<impl *mut T>::write_volatile",
            "__gnu_cxx::__exchange_and_add_dispatch",
        ] {
            assert_eq!(function(name), Function::Synchronising, "{name}");
        }
        for name in [
            "std::vector<std::atomic<int>>::push_back",
            "std::__atomic_base<int>::__atomic_base",
            "std::atomic<int>::atomic",
            "core::sync::atomic::AtomicU32::get_mut",
            "core::ptr::read",
        ] {
            assert_eq!(function(name), Function::Library, "{name}");
        }
        for name in ["main", "atomic_count", "mine::atomic::load"] {
            assert_eq!(function(name), Function::Other, "{name}");
        }
    }
}
