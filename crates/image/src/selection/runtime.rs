//! Runtime libraries, which are not sampled unless asked for.

use redhanded_model::Frame;
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

/// Sources of Rust's standard library that start threads, synchronise them, or keep what only the
/// library itself uses.
const RUST_RUNTIME: [&str; 9] = [
    "alloc/src/sync.rs",
    "core/src/sync/",
    "std/src/panicking.rs",
    "std/src/rt.rs",
    "std/src/sync/",
    "std/src/sys/",
    "std/src/sys_common/",
    "std/src/thread.rs",
    "std/src/thread/",
];

/// Whether Rust's standard library made an access for its own purposes. It is linked into each
/// program, and its generic code is compiled with the program's, so no module and no unit of the
/// debug information tells it apart.
///
/// From the access outwards, all is the library's until the program is reached. A vector that the
/// program fills is the program's; one that a channel fills is not.
#[must_use]
pub fn is_within_rust_runtime(stack: &[Frame]) -> bool {
    let in_runtime = |frame: &&Frame| {
        let module = frame.module.as_deref().map(Path::new);
        module.is_some_and(is_runtime)
    };
    stack
        .iter()
        .skip_while(in_runtime)
        .map_while(|frame| in_rust_library(frame.file.as_deref()?))
        .any(|file| RUST_RUNTIME.iter().any(|part| file.starts_with(part)))
}

/// The path of a source file in Rust's standard library: `core/src/cmp.rs` of
/// `/rustc/HASH/library/core/src/cmp.rs`, or below `lib/rustlib/src/rust` where the sources are
/// installed.
fn in_rust_library(file: &str) -> Option<&str> {
    let (before, within) = file.split_once("/library/")?;
    let is_library = before.starts_with("/rustc/") || before.ends_with("/rustlib/src/rust");
    is_library.then_some(within)
}

#[cfg(test)]
mod tests {
    use super::{is_go_runtime, is_runtime, is_within_rust_runtime};
    use redhanded_model::Frame;
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

    #[test]
    fn what_the_rust_library_does_for_itself() {
        const LIBRARY: &str = "/rustc/88cb/library";
        let frame = |file: &&str| Frame {
            file: Some(file.replace("LIB", LIBRARY)),
            module: Some("app".to_owned()),
            ..Frame::default()
        };
        let within = |stack: &[&str]| {
            let stack: Vec<Frame> = stack.iter().map(frame).collect();
            is_within_rust_runtime(&stack)
        };
        let push = "LIB/alloc/src/vec/mod.rs";
        let waker = "LIB/std/src/sync/mpmc/waker.rs";
        let user = "src/main.rs";
        assert!(within(&[push, waker, user]));
        assert!(within(&[waker]));
        assert!(!within(&[push, user, waker]));
        // A closure of the program that a thread runs.
        let spawned = "/home/me/lib/rustlib/src/rust/library/std/src/thread/mod.rs";
        assert!(within(&[spawned]));
        assert!(!within(&[user, spawned]));
        assert!(!within(&["/src/library/std/src/sync/x.rs", user]));
        assert!(!within(&[]));
        let mut memcpy = frame(&"memmove.S");
        memcpy.module = Some("libc.so.6".to_owned());
        let stack = [memcpy, frame(&push), frame(&waker)];
        assert!(is_within_rust_runtime(&stack));
        assert!(!is_within_rust_runtime(&stack[..2]));
    }
}
