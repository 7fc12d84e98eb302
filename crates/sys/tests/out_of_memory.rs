//! Starting threads where there is little memory.

use std::process::{Command, Output};
use std::thread::{Builder, JoinHandle};
use std::{env, panic};

use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};

/// As in the tool, because telling of a panic takes memory too.
#[global_allocator]
static MEMORY: redhanded_sys::OrExit = redhanded_sys::OrExit;

/// In the child: how many pages there are besides the thread's stack.
const PAGES: &str = "REDHANDED_TEST_PAGES";
const PAGE: u64 = 4096;
const STACK: u64 = 2 << 20;

/// The child's exit status when it is refused a thread.
const REFUSED: i32 = 3;

#[test]
fn a_thread_is_refused_unless_there_is_room_for_all_it_needs() {
    if let Ok(pages) = env::var(PAGES) {
        limit_to(&pages);
        let started = redhanded_sys::thread_builder().and_then(|thread| thread.spawn(|| ()));
        return started.map_or_else(|_| std::process::exit(REFUSED), join);
    }
    let children = children(
        "a_thread_is_refused_unless_there_is_room_for_all_it_needs",
        80,
    );
    let is = |child: &Output, status| child.status.code() == Some(status);
    for child in &children {
        assert!(is(child, 0) || is(child, REFUSED), "{child:?}");
    }
    assert!(children.iter().any(|child| is(child, 0)));
    assert!(children.iter().any(|child| is(child, REFUSED)));
}

#[test]
fn no_room_for_a_signal_stack_is_want_of_memory() {
    if let Ok(pages) = env::var(PAGES) {
        panic::set_hook(Box::new(|panic| {
            redhanded_sys::exit_if_for_want_of_memory(panic.payload_as_str().unwrap_or_default());
        }));
        limit_to(&pages);
        let stack = usize::try_from(STACK).unwrap();
        let started = Builder::new().stack_size(stack).spawn(|| ());
        return started.map_or_else(|_| std::process::exit(REFUSED), join);
    }
    let mut told = 0;
    for child in children("no_room_for_a_signal_stack_is_want_of_memory", 32) {
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(!said.contains("panic"), "{said}");
        told += u32::from(said == "redhanded: there is not enough memory\n");
    }
    assert!(told > 0, "no amount of memory was between the two stacks");
}

/// Runs the test of this name in processes with more and more memory.
fn children(test: &str, pages: u64) -> Vec<Output> {
    let run = |pages: u64| {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", test]).env(PAGES, pages.to_string());
        child.output().unwrap()
    };
    (0..pages).map(run).collect()
}

/// Leaves room for a stack and so many pages.
fn limit_to(pages: &str) {
    let pages: u64 = pages.parse().unwrap();
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let used: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    let room = used * PAGE + STACK + pages * PAGE;
    setrlimit(Resource::RLIMIT_AS, room, RLIM_INFINITY).unwrap();
}

fn join(thread: JoinHandle<()>) {
    thread.join().unwrap();
}
