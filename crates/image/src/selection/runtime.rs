//! Runtime libraries, which are not sampled unless asked for.

use std::path::Path;

/// Whether the module at `path` is part of the runtime.
#[must_use]
pub fn is_runtime(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| redhanded_model::is_runtime(&name))
}

/// Packages that are linked into every Go program and implement its language and threads: the
/// scheduler, the heap and the garbage collector, and what locks are made of. They use plain
/// moves as atomic accesses.
const GO_RUNTIME: [&str; 9] = [
    "runtime",
    "sync",
    "sync/atomic",
    "internal/abi",
    "internal/bytealg",
    "internal/chacha8rand",
    "internal/cpu",
    "internal/poll",
    "internal/sync",
];

/// Their assembly, whose names have no package.
const GO_ASSEMBLY: [&str; 13] = [
    "aeshashbody",
    "callRet",
    "cmpbody",
    "countbody",
    "debugCall32",
    "gogo",
    "gosave_systemstack_switch",
    "indexbody",
    "indexbytebody",
    "memeqbody",
    "setg_gcc",
    "_rt0_amd64",
    "_rt0_amd64_linux",
];

/// Whether a function of a Go program belongs to the language's runtime, by its symbol:
/// `runtime.mallocgc`, `internal/runtime/maps.(*Map).Get`, `sync.(*Mutex).Lock`.
pub(super) fn is_go_runtime(name: &str) -> bool {
    // The package ends at the first dot behind the last slash before any receiver or type
    // argument, which may hold other packages' names.
    let path = name.split(['(', '[']).next().unwrap_or(name);
    let last = path.rfind('/').map_or(0, |slash| slash + 1);
    let Some(dot) = path.get(last..).and_then(|rest| rest.find('.')) else {
        return GO_ASSEMBLY.contains(&name);
    };
    let package = path.get(..last + dot).unwrap_or(path);
    GO_RUNTIME.contains(&package)
        || package.starts_with("runtime/")
        || package.starts_with("internal/runtime/")
}

#[cfg(test)]
mod tests {
    use super::{is_go_runtime, is_runtime};
    use std::path::Path;

    #[test]
    fn modules_are_known_by_their_file_names() {
        assert!(is_runtime(Path::new("/lib/x86_64-linux-gnu/libc.so.6")));
        assert!(is_runtime(Path::new("[vdso]")));
        for name in ["/lib/libc.so.6/app", "/usr/bin/ld", "/usr/bin/libc", "/"] {
            assert!(!is_runtime(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn go_runtime_functions_by_name() {
        for name in [
            "runtime.mallocgc",
            "runtime.(*mcache).refill",
            "runtime/internal/atomic.Load",
            "runtime/debug.SetGCPercent",
            "internal/runtime/maps.(*Map).putSlotSmall",
            "sync.(*Mutex).lockSlow",
            "sync/atomic.(*Pointer[go.shape.struct { main.x int }]).Load",
            "memeqbody",
        ] {
            assert!(is_go_runtime(name), "{name}");
        }
        for name in [
            "main.main",
            "main.(*counter).add",
            "main.main.func1",
            "example.org/runtime.Start",
            "example.org/sync/pool.Get",
            "runtimes.Start",
            "container/list.(*List).Init",
            "main.apply[go.shape.func(runtime.Frame)]",
            "type:.eq.main.pair",
            "a_c_function",
        ] {
            assert!(!is_go_runtime(name), "{name}");
        }
    }
}
