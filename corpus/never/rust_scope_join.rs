// Scoped threads: what they wrote is read after the scope has joined them. The
// twin reads while they run.
//@ build: O0 O2
//@ full: O2+lines O2+g1 O2+nodebug O2+stripped Os
//@ focus: add_up read_total
//@ twin-expect: what=* region=stack functions=add_up,read_total
use std::hint::{black_box, spin_loop};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

const SCOPES: usize = 100;
const STEPS: usize = 2000;

/// A raw pointer, so that the twin can read before the scope has ended.
#[derive(Clone, Copy)]
struct Total(*mut u64);

// SAFETY: each total is one thread's until it is joined, except in the twin.
unsafe impl Send for Total {}

impl Total {
    fn pointer(self) -> *mut u64 {
        self.0
    }
}

#[inline(never)]
fn add_up(total: Total) {
    // SAFETY: the only thread on this total, except in the twin.
    unsafe { *total.0 = (*total.0).wrapping_add(1) }
}

#[inline(never)]
fn read_total(total: Total) -> u64 {
    // SAFETY: the thread that wrote it is joined, except in the twin.
    unsafe { *total.0 }
}

fn pause() {
    for _ in 0..4 {
        spin_loop();
    }
}

fn work(total: Total) {
    for _ in 0..STEPS {
        add_up(total);
        pause();
    }
}

fn read_all(total: Total) {
    for _ in 0..STEPS {
        black_box(read_total(total));
        pause();
    }
}

fn main() {
    let closing = AtomicBool::new(false);
    let mut storage = 0;
    let total = Total(&raw mut storage);
    thread::scope(|outer| {
        // Somebody who runs all the time and touches nothing of the others.
        outer.spawn(|| {
            while !closing.load(Acquire) {
                pause();
            }
        });
        for _ in 0..SCOPES {
            thread::scope(|inner| {
                inner.spawn(move || work(Total(total.pointer())));
                if cfg!(twin) {
                    read_all(total);
                }
            });
            read_all(total);
        }
        closing.store(true, Release);
    });
}
