//! Whose code a frame is: the program's own, or a library's that the program uses as it is.
//!
//! The libraries of languages are in modules of their own, in headers and in the sources of
//! toolchains. Which of them a function comes from is the compiler's choice: what is inlined or
//! instantiated is in the program's module, and so is all of a static program.

use crate::Frame;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Libraries that implement languages and threads. They synchronise internally in their own
/// ways, and a race in a program is seen in its own code.
const RUNTIME: [&str; 31] = [
    "libc",
    "libm",
    "libmvec",
    "libpthread",
    "libdl",
    "librt",
    "libresolv",
    "libanl",
    "libutil",
    "libthread_db",
    "libgcc_s",
    "libatomic",
    "libstdc++",
    "libc++",
    "libc++abi",
    "libgomp",
    "libomp",
    "libiomp5",
    "libtsan",
    "libasan",
    "liblsan",
    "libubsan",
    "libhwasan",
    "libquadmath",
    "libgfortran",
    "ld-linux-x86-64",
    "ld-musl-x86_64",
    "ld",
    "linux-vdso",
    "vdso",
    "[vdso]",
];

/// Whether the module with this file name is part of the runtime: the C library and its
/// loader, threads, language and sanitizer runtimes, the vDSO.
#[must_use]
pub fn is_runtime(name: &str) -> bool {
    // libc.so.6, libc-2.31.so, libc.musl-x86_64.so.1
    let stem = match name.split_once(".so") {
        Some((stem, _)) => stem,
        None if name.contains("vdso") => name,
        None => return false,
    };
    let stem = stem.split_once(".musl-").map_or(stem, |(stem, _)| stem);
    let unversioned = match stem.rsplit_once('-') {
        Some((base, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => base,
        _ => stem,
    };
    RUNTIME.contains(&stem)
        || RUNTIME.contains(&unversioned)
        || stem.starts_with("libnss_")
        || stem.starts_with("libclang_rt.")
        || stem.starts_with("linux-vdso")
}

impl Frame {
    /// Whether it is not of the program's own source, as far as that shows.
    #[must_use]
    pub fn is_library(&self) -> bool {
        let Some(module) = &self.module else {
            return self.file.as_deref().is_none_or(is_library_file);
        };
        let function = self.function.as_deref();
        is_runtime(module)
            || match self.file.as_deref() {
                Some(file) if is_assembly(file) => function.and_then(library_function).is_some(),
                Some(file) => is_library_file(file),
                None => function
                    .is_some_and(|name| library_function(name).is_some() || is_of_language(name)),
            }
    }
}

/// Whether a source file comes with the system or with a compiler.
fn is_library_file(file: &str) -> bool {
    ["/usr/include/", "/usr/lib/", "/rustc/"]
        .iter()
        .any(|folder| file.starts_with(folder))
        || ["/rustlib/src/", "/include/c++/"]
            .iter()
            .any(|folder| file.contains(folder))
}

/// C libraries and kernels have their memory functions in it.
fn is_assembly(file: &str) -> bool {
    file.ends_with(".S") || file.ends_with(".s")
}

/// Whether a function is in a namespace that belongs to the library of its language:
/// `std::vector<int>::push_back(int&&)`, `alloc::vec::Vec<T>::push`,
/// `<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop`. Where there is no source, the name is
/// all that there is.
pub(crate) fn is_of_language(function: &str) -> bool {
    const NAMESPACES: [&str; 5] = ["std::", "__gnu_cxx::", "__cxxabiv1::", "core::", "alloc::"];
    let is_within = |path: &str| {
        let path = path.trim_start_matches(['<', '&', '[', '*', ' ']);
        NAMESPACES.iter().any(|space| path.starts_with(space))
    };
    let name = without_return_type(function);
    match name
        .strip_prefix('<')
        .and_then(|rest| rest.split_once(" as "))
    {
        Some((of, implemented)) => is_within(of) && is_within(implemented),
        None => is_within(name),
    }
}

/// A function's name without the type that the names of C++'s templates begin with:
/// `void std::swap<int>(int&, int&)`.
fn without_return_type(function: &str) -> &str {
    let (mut depth, mut start) = (0_usize, 0);
    for (at, character) in function.char_indices() {
        match character {
            '(' if depth == 0 && at > start => break,
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    function.get(start..).unwrap_or(function)
}

/// The functions of allocators, and what they do. Each frame of each race may ask.
static ALLOCATORS: LazyLock<HashMap<&str, Allocator>> = LazyLock::new(|| {
    let rows = rows(include_str!("library/allocators.txt"));
    let told = rows.filter_map(|row| row.split_once('\t'));
    let does = told.map(|(name, does)| match does {
        "frees" => (name, Allocator::Frees),
        "allocates" => (name, Allocator::Allocates),
        _ => (name, Allocator::Inner),
    });
    does.collect()
});

static MEMORY_FUNCTIONS: LazyLock<Vec<&str>> =
    LazyLock::new(|| rows(include_str!("library/memory_functions.txt")).collect());

/// The rows of a list.
fn rows(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

/// What a function of an allocator does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocator {
    /// It gives memory back.
    Frees,
    /// It hands memory out.
    Allocates,
    /// Part of both.
    Inner,
}

/// The name of a function without parameters, and without what compilers append and the C
/// library prefixes: `operator delete(void*)`, `_int_free.constprop.0`, `__GI___libc_free`.
fn bare(function: &str) -> &str {
    let name = function.split('(').next().unwrap_or(function);
    let name = name.split('.').next().unwrap_or(name);
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    name.strip_prefix("__libc_").unwrap_or(name)
}

/// What a function is to its allocator, if it belongs to one; and its bare name.
#[must_use]
pub fn allocator(function: &str) -> Option<(&str, Allocator)> {
    let name = bare(function);
    ALLOCATORS.get(name).map(|does| (name, *does))
}

/// The memory function that a function of the C library is a variant of.
#[must_use]
pub fn memory_function(function: &str) -> Option<&'static str> {
    let whole = bare(function);
    let name = whole.trim_start_matches('_');
    let name = name.strip_prefix("builtin_").unwrap_or(name);
    // Only the library's own names begin with two underscores.
    let varies = whole.starts_with("__");
    let mut known = MEMORY_FUNCTIONS.iter().copied();
    known.find(|known| {
        let rest = name.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || (varies && rest.starts_with('_')))
    })
}

/// The name under which programs call a library's function that has variants.
#[must_use]
pub fn library_function(name: &str) -> Option<&str> {
    memory_function(name).or_else(|| allocator(name).map(|(bare, _)| bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: &str, function: &str, file: &str) -> Frame {
        let told = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Frame {
            module: told(module),
            function: told(function),
            file: told(file),
            ..Frame::default()
        }
    }

    #[test]
    fn modules_of_the_runtime_are_libraries_and_a_projects_own_are_not() {
        for module in [
            "libc.so.6",
            "libc-2.31.so",
            "libc.musl-x86_64.so.1",
            "ld-linux-x86-64.so.2",
            "ld-2.31.so",
            "ld-musl-x86_64.so.1",
            "libpthread.so.0",
            "libstdc++.so.6.0.30",
            "libnss_files.so.2",
            "libgomp.so.1.0.0",
            "libtsan.so.2",
            "[vdso]",
            "linux-vdso.so.1",
        ] {
            assert!(frame(module, "f", "./nptl/f.c").is_library(), "{module}");
        }
        for module in [
            "libcrypto.so.3",
            "libcache.so",
            "libmine.so.1",
            "ld",
            "libc",
            "a.out",
        ] {
            assert!(!frame(module, "f", "f.c").is_library(), "{module}");
        }
        assert!(frame("", "", "").is_library(), "generated code");
    }

    #[test]
    fn what_is_inlined_or_instantiated_is_known_by_its_file() {
        let push = "std::vector<int>::push_back(int&&)";
        for file in [
            "/usr/include/c++/12/bits/stl_vector.h",
            "/usr/lib/llvm-14/include/c++/v1/vector",
            "/opt/gcc-13/include/c++/13/bits/stl_vector.h",
            "/rustc/90b35a6239c3d8bdabc530a6a0816f7ff89a0aaf/library/alloc/src/vec/mod.rs",
            "/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/cell.rs",
        ] {
            assert!(frame("app", push, file).is_library(), "{file}");
        }
        // A specialisation of the program's own.
        let own = frame(
            "app",
            "std::hash<Key>::operator()(Key const&) const",
            "key.cc",
        );
        assert!(!own.is_library());
    }

    #[test]
    fn without_a_file_the_name_tells() {
        for name in [
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
            "void std::swap<int>(int&, int&)",
            "bool std::operator< <char>(std::string const&, std::string const&)",
            "__gnu_cxx::new_allocator<int>::deallocate(int*, unsigned long)",
            "alloc::vec::Vec<T,A>::push",
            "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
            "core::ptr::drop_in_place<app::Record>",
            "__memmove_avx_unaligned_erms",
            "_int_free",
            "operator delete(void*, unsigned long)",
        ] {
            assert!(frame("app", name, "").is_library(), "{name}");
        }
        for name in [
            "",
            "main",
            "std_init",
            "standard::f(std::string)",
            "add(std::vector<int>&)",
            "std::string make()",
            "(anonymous namespace)::f(std::string const&)",
            "app::cache::core::get",
            "<app::Record as core::fmt::Display>::fmt",
            "<alloc::vec::Vec<u8> as app::Encode>::encode",
            "app::main::{{closure}}",
            "my_memcpy",
            "Pool::free(void*)",
        ] {
            assert!(!frame("app", name, "").is_library(), "{name}");
        }
    }

    #[test]
    fn a_memory_function_is_a_librarys_in_assembly_too() {
        let file = "../sysdeps/x86_64/multiarch/memmove-vec-unaligned-erms.S";
        assert!(frame("app", "__memmove_avx_unaligned_erms", file).is_library());
        assert!(!frame("app", "mix", "mix.S").is_library());
        assert!(!frame("app", "memcpy", "own.c").is_library());
    }

    #[test]
    fn allocators_are_known_by_their_whole_names() {
        let does = |name| allocator(name).map(|(_, does)| does);
        assert_eq!(does("free"), Some(Allocator::Frees));
        assert_eq!(
            does("operator delete(void*, unsigned long)"),
            Some(Allocator::Frees)
        );
        assert_eq!(does("_int_free.constprop.0"), Some(Allocator::Inner));
        assert_eq!(does("malloc"), Some(Allocator::Allocates));
        assert_eq!(
            allocator("__GI___libc_free"),
            Some(("free", Allocator::Frees))
        );
        for other in [
            "pool_free",
            "free_list",
            "freeaddrinfo",
            "Pool::free(void*)",
        ] {
            assert_eq!(does(other), None, "{other}");
        }
        for row in rows(include_str!("library/allocators.txt")) {
            let does = row.split_once('\t').map(|(_, does)| does);
            assert!(
                matches!(does, Some("frees" | "allocates" | "inner")),
                "{row}"
            );
        }
    }

    #[test]
    fn memory_functions_have_variants() {
        assert_eq!(
            memory_function("__memmove_avx_unaligned_erms"),
            Some("memmove")
        );
        assert_eq!(memory_function("__memcpy_chk"), Some("memcpy"));
        assert_eq!(memory_function("strlen"), Some("strlen"));
        for other in [
            "memory_pool",
            "memsetter",
            "strtol",
            "my_memcpy",
            "memcpy_atomic",
        ] {
            assert_eq!(memory_function(other), None, "{other}");
        }
    }
}
