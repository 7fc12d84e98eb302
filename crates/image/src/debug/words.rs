//! Names that are known without a definition: library functions, builtins, and macros and
//! constants of C and C++.

/// What a function among the frames of an access says about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Function {
    /// Its accesses are atomic or volatile.
    Synchronising {
        /// Whether they are volatile.
        volatile: bool,
    },
    /// A function of a standard library, which such a function may have called.
    Library,
    /// Anything else.
    Other,
}

/// Judges a function by its demangled name.
pub(super) fn function(name: &str) -> Function {
    let name = name.replace("::__1::", "::").replace("::__cxx11::", "::");
    if let Some(volatile) = is_synchronising_function(&name) {
        return Function::Synchronising { volatile };
    }
    const LIBRARIES: [&str; 5] = ["std::", "core::", "alloc::", "__gnu_cxx::", "<core::"];
    if LIBRARIES.iter().any(|start| name.starts_with(start)) {
        Function::Library
    } else {
        Function::Other
    }
}

fn is_synchronising_function(name: &str) -> Option<bool> {
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
        return is_volatile_method(method).then_some(true);
    }
    (FAMILIES.iter().any(|family| name.starts_with(family))
        && !is_plain_method(method)
        && !is_constructor(name))
    .then(|| name.contains("volatile_"))
}

fn is_volatile_method(method: &str) -> bool {
    matches!(method, "read_volatile" | "write_volatile")
}

/// Creating an atomic, and accessing one that is not shared, are plain accesses.
pub(super) fn is_plain_method(method: &str) -> bool {
    ["new", "get_mut", "into_inner", "from_mut", "default"].contains(&method)
}

/// Judges a function of Rust by the file that it is in, because line tables alone give names
/// without paths.
pub(super) fn function_in(name: &str, file: &str) -> Function {
    let Some(at) = file
        .find("/library/")
        .or_else(|| file.find("/lib/rustlib/"))
    else {
        // A crate that has nothing but atomics.
        if file.contains("/portable-atomic-") && !is_plain_method(last_segment(name)) {
            return Function::Synchronising { volatile: false };
        }
        return Function::Other;
    };
    let path = file.get(at..).unwrap_or_default();
    let method = last_segment(name);
    if path.ends_with("/core/src/sync/atomic.rs") && !is_plain_method(method) {
        return Function::Synchronising { volatile: false };
    }
    if path.contains("/core/src/intrinsics/") && method.starts_with("atomic_") {
        return Function::Synchronising { volatile: false };
    }
    if is_volatile_method(method)
        || (path.contains("/core/src/intrinsics/") && method.starts_with("volatile_"))
    {
        return Function::Synchronising { volatile: true };
    }
    Function::Library
}

/// What a function of Go is: its own atomics are compiled to plain moves, and its runtime
/// makes other plain moves that its source calls atomic.
pub(super) fn is_atomic_in_go(name: &str) -> bool {
    [
        "internal/runtime/atomic.",
        "runtime/internal/atomic.",
        "sync/atomic.",
    ]
    .iter()
    .any(|package| name.starts_with(package))
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

/// How an atomic operation is given its object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// By its address.
    Pointer,
    /// By itself, as macros can.
    Object,
}

/// What an atomic builtin, or a macro that is as well known, does to its first argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operation {
    pub(super) form: Form,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) volatile: bool,
    /// Whether it only initialises an atomic object, which is no atomic access.
    pub(super) plain: bool,
    /// Whether the second argument points to a value, which is accessed plainly.
    pub(super) second_is_pointer: bool,
}

/// The operation that a name stands for, in a kernel or anywhere.
pub(super) fn operation(name: &str, kernel: bool) -> Option<Operation> {
    let family = ["__atomic_", "__c11_atomic_", "__scoped_atomic_", "atomic_"]
        .iter()
        .find_map(|start| Some((*start, name.strip_prefix(start)?)));
    let simple = |form, reads, writes, volatile| Operation {
        form,
        reads,
        writes,
        volatile,
        plain: false,
        second_is_pointer: false,
    };
    if let Some(rest) = name.strip_prefix("__sync_") {
        let release = rest.starts_with("lock_release");
        let known = release
            || [
                "fetch_and_",
                "add_and_",
                "sub_and_",
                "or_and_",
                "and_and_",
                "xor_and_",
                "nand_and_",
            ]
            .iter()
            .any(|start| rest.starts_with(start))
            || ["val_compare", "bool_compare", "lock_test"]
                .iter()
                .any(|start| rest.starts_with(start));
        return known.then(|| simple(Form::Pointer, !release, true, false));
    }
    if let Some(rest) = name
        .strip_prefix("g_atomic_int_")
        .or_else(|| name.strip_prefix("g_atomic_pointer_"))
    {
        return Some(simple(Form::Pointer, rest != "set", rest != "get", false));
    }
    if kernel && let Some(known) = kernel_operation(name) {
        return Some(known);
    }
    let (start, rest) = family?;
    let base = rest.strip_suffix("_explicit").unwrap_or(rest);
    let base = base.strip_suffix("_n").unwrap_or(base);
    let generic = start == "__atomic_" && !rest.ends_with("_n");
    let mut known = match base {
        "load" => simple(Form::Pointer, true, false, false),
        "store" | "clear" | "flag_clear" => simple(Form::Pointer, false, true, false),
        "init" if start != "__atomic_" => Operation {
            plain: true,
            ..simple(Form::Pointer, false, true, false)
        },
        "exchange"
        | "compare_exchange"
        | "compare_exchange_strong"
        | "compare_exchange_weak"
        | "test_and_set"
        | "flag_test_and_set" => simple(Form::Pointer, true, true, false),
        _ if is_fetch(base) => simple(Form::Pointer, true, true, false),
        _ => return None,
    };
    known.second_is_pointer = base.starts_with("compare_exchange")
        || (generic && matches!(base, "load" | "store" | "exchange"));
    Some(known)
}

fn is_fetch(name: &str) -> bool {
    const OPERATIONS: [&str; 8] = ["add", "sub", "and", "or", "xor", "nand", "min", "max"];
    let rest = name
        .strip_prefix("fetch_")
        .or_else(|| name.strip_suffix("_fetch"));
    rest.is_some_and(|rest| OPERATIONS.contains(&rest))
}

/// Macros of Linux, whose definitions differ from version to version.
fn kernel_operation(name: &str) -> Option<Operation> {
    let simple = |form, reads, writes| Operation {
        form,
        reads,
        writes,
        volatile: true,
        plain: false,
        second_is_pointer: false,
    };
    Some(match name {
        "READ_ONCE" | "READ_ONCE_NOCHECK" | "ACCESS_ONCE" | "rcu_access_pointer" | "data_race" => {
            simple(Form::Object, true, name == "ACCESS_ONCE")
        }
        "WRITE_ONCE" | "rcu_assign_pointer" | "RCU_INIT_POINTER" => {
            simple(Form::Object, false, true)
        }
        "rcu_replace_pointer" => simple(Form::Object, true, true),
        _ if name.starts_with("rcu_dereference") || name.starts_with("srcu_dereference") => {
            simple(Form::Object, true, false)
        }
        _ if name.starts_with("smp_load_") || name.starts_with("smp_cond_load_") => {
            simple(Form::Pointer, true, false)
        }
        _ if name.starts_with("smp_store_") => simple(Form::Pointer, false, true),
        _ if ["cmpxchg", "try_cmpxchg", "xchg"].contains(&name) => {
            simple(Form::Pointer, true, true)
        }
        _ => return None,
    })
}

/// Whether a file has nothing but the atomic types of C++.
pub(super) fn is_atomic_header(file: &str) -> bool {
    const HEADERS: [&str; 4] = [
        "/atomic",
        "/bits/atomic_base.h",
        "/bits/atomic_wait.h",
        "/bits/shared_ptr_atomic.h",
    ];
    file.contains("/c++/")
        && (file.contains("/__atomic/") || HEADERS.iter().any(|header| file.ends_with(header)))
}

/// Functions of the C library that compilers replace by plain moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bulk {
    /// Writes what the first argument points to.
    Fills,
    /// Copies there from what the second points to.
    Copies,
    /// Reads what the first two point to.
    Reads,
    /// Copies to what the first argument points to up to the zero that ends the second.
    CopiesText,
    /// Reads what the first two point to up to a byte that it looks for.
    Searches,
}

impl Bulk {
    /// Whether it looks for a byte, so that what it reads goes no further than that.
    pub(super) const fn searches(self) -> bool {
        matches!(self, Self::CopiesText | Self::Searches)
    }
}

/// What a function does that compilers replace by plain moves.
pub(super) fn bulk(name: &str) -> Option<Bulk> {
    let name = name.strip_prefix("__builtin_").unwrap_or(name);
    let name = name.strip_prefix("__").unwrap_or(name);
    let name = name.strip_suffix("_chk").unwrap_or(name);
    Some(match name {
        "memset" | "bzero" | "explicit_bzero" => Bulk::Fills,
        "memcpy" | "memmove" | "mempcpy" => Bulk::Copies,
        "strcpy" | "strncpy" | "stpcpy" | "strcat" | "strncat" => Bulk::CopiesText,
        "memcmp" => Bulk::Reads,
        "strlen" | "strcmp" | "strncmp" | "memchr" | "strchr" | "strrchr" | "strnlen" => {
            Bulk::Searches
        }
        _ => return None,
    })
}

/// Whether a name that is followed by arguments is known to do no more than evaluate them.
pub(super) fn is_harmless(name: &str) -> bool {
    const NAMES: [&str; 20] = [
        "assert",
        "offsetof",
        "va_start",
        "va_arg",
        "va_end",
        "va_copy",
        "likely",
        "unlikely",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "fpclassify",
        "fabs",
        "sqrt",
        "abs",
        "labs",
        "alloca",
        "atomic_thread_fence",
        "atomic_signal_fence",
    ];
    NAMES.contains(&name)
        || name.starts_with("__builtin_")
        // Checked variants of functions of the C library.
        || (name.starts_with("__") && name.ends_with("_chk"))
        || matches!(
            name,
            "__atomic_thread_fence" | "__atomic_signal_fence" | "__sync_synchronize"
        )
}

/// Whether a word of a declaration in C is a keyword other than the name of a number.
pub(super) fn is_specifier(word: &str) -> bool {
    const WORDS: [&str; 20] = [
        "auto",
        "const",
        "enum",
        "extern",
        "inline",
        "register",
        "restrict",
        "static",
        "struct",
        "thread_local",
        "typedef",
        "union",
        "void",
        "volatile",
        "_Noreturn",
        "_Thread_local",
        "__extension__",
        "__inline",
        "__restrict",
        "__thread",
    ];
    WORDS.contains(&word)
}

/// Whether a name is a constant of the C standard or of POSIX, whose header need not be known.
pub(super) fn is_constant(name: &str) -> bool {
    const NAMES: [&str; 22] = [
        "NULL",
        "true",
        "false",
        "EOF",
        "BUFSIZ",
        "CHAR_BIT",
        "errno",
        "stdin",
        "stdout",
        "stderr",
        "__func__",
        "__FUNCTION__",
        "__PRETTY_FUNCTION__",
        "__FILE__",
        "__LINE__",
        "EXIT_SUCCESS",
        "EXIT_FAILURE",
        "RAND_MAX",
        "CLOCKS_PER_SEC",
        "HUGE_VAL",
        "INFINITY",
        "NAN",
    ];
    const ERRORS: [&str; 24] = [
        "EAGAIN",
        "EINTR",
        "EINVAL",
        "ENOMEM",
        "EBUSY",
        "ENOENT",
        "EIO",
        "EPERM",
        "EACCES",
        "EEXIST",
        "ENOSPC",
        "ERANGE",
        "EDOM",
        "ETIMEDOUT",
        "EWOULDBLOCK",
        "EPIPE",
        "ENOSYS",
        "EBADF",
        "EFAULT",
        "ENOTSUP",
        "EDEADLK",
        "ECHILD",
        "ENODEV",
        "EINPROGRESS",
    ];
    const LIMITS: [&str; 22] = [
        "CHAR", "SCHAR", "UCHAR", "SHRT", "USHRT", "INT", "UINT", "LONG", "ULONG", "LLONG",
        "ULLONG", "SIZE", "SSIZE", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32",
        "UINT64", "PTRDIFF",
    ];
    NAMES.contains(&name)
        || ERRORS.contains(&name)
        || name.starts_with("__ATOMIC_")
        || name.starts_with("memory_order_")
        || name
            .strip_suffix("_MAX")
            .or_else(|| name.strip_suffix("_MIN"))
            .is_some_and(|kind| LIMITS.contains(&kind))
}

/// The size of a number, by the words that name its type.
pub(super) fn size(words: &str) -> Option<u64> {
    let has = |word: &str| words.split_whitespace().any(|known| known == word);
    Some(match words {
        "size_t" | "ssize_t" | "ptrdiff_t" | "intptr_t" | "uintptr_t" => 8,
        "int8_t" | "uint8_t" => 1,
        "int16_t" | "uint16_t" | "char16_t" => 2,
        "int32_t" | "uint32_t" | "char32_t" => 4,
        "int64_t" | "uint64_t" => 8,
        "void" => return None,
        _ if has("char") || has("bool") || has("_Bool") || has("char8_t") => 1,
        _ if has("short") => 2,
        _ if has("long") && has("double") => 16,
        _ if has("long") || has("double") => 8,
        _ if has("int") || has("float") || has("unsigned") || has("signed") => 4,
        _ => return None,
    })
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
            assert!(
                matches!(function(name), Function::Synchronising { .. }),
                "{name}"
            );
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
