// Memory reclaimed by epochs, as crossbeam does it: readers pin the epoch and follow an
// AtomicPtr to plain data; a node is freed two epochs after it was unlinked.
//@ build: O2
//@ full: O0 O2+lines O2+nodebug O2+stripped O3 O2+dwarf4 O2+lto
//@ focus: look replace pin unpin advance
//@ twin-expect: what=PLAIN functions=replace,look
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, fence};
use std::thread;

struct Node {
    number: u64,
    copy: u64,
}

struct Plain(UnsafeCell<u64>);
// SAFETY: used by the twin only, which is wrong on purpose.
unsafe impl Sync for Plain {}

static PLAIN: Plain = Plain(UnsafeCell::new(0));
static CURRENT: AtomicPtr<Node> = AtomicPtr::new(std::ptr::null_mut());
static EPOCH: AtomicUsize = AtomicUsize::new(2);
static PINNED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static DONE: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn pin(who: usize) {
    let now = EPOCH.load(Relaxed);
    PINNED[who].store(now << 1 | 1, Relaxed);
    fence(SeqCst);
}

#[inline(never)]
fn unpin(who: usize) {
    PINNED[who].store(0, Release);
}

#[inline(never)]
fn advance() -> usize {
    let now = EPOCH.load(Relaxed);
    fence(SeqCst);
    for slot in &PINNED {
        let seen = slot.load(Relaxed);
        if seen & 1 == 1 && seen >> 1 != now {
            return now;
        }
    }
    fence(Acquire);
    EPOCH.store(now + 1, Release);
    now + 1
}

#[inline(never)]
fn look(who: usize) -> u64 {
    if cfg!(twin) {
        // SAFETY: wrong on purpose.
        return unsafe { *PLAIN.0.get() };
    }
    pin(who);
    let seen = CURRENT.load(Acquire);
    // SAFETY: pinned, so nobody frees what we see.
    let difference = unsafe { (*seen).number - (*seen).copy };
    unpin(who);
    difference
}

#[inline(never)]
fn replace(number: u64, garbage: &mut Vec<(usize, *mut Node)>) {
    if cfg!(twin) {
        // SAFETY: wrong on purpose.
        unsafe { *PLAIN.0.get() = number };
        return;
    }
    let next = Box::into_raw(Box::new(Node { number, copy: number }));
    let old = CURRENT.swap(next, Release);
    garbage.push((EPOCH.load(SeqCst), old));
    let now = advance();
    garbage.retain(|&(then, node)| {
        let keep = then + 2 >= now;
        if !keep {
            // SAFETY: nobody can have seen it for two epochs.
            drop(unsafe { Box::from_raw(node) });
        }
        keep
    });
}

fn main() {
    CURRENT.store(Box::into_raw(Box::new(Node { number: 0, copy: 0 })), Release);
    let writer = thread::spawn(|| {
        let mut garbage = Vec::new();
        for i in 0..if cfg!(twin) { 300_000 } else { 60_000 } {
            replace(i, &mut garbage);
            spin_loop();
        }
        DONE.store(true, Release);
    });
    let reader = thread::spawn(|| {
        while !DONE.load(Acquire) {
            let difference = black_box(look(1));
            assert!(cfg!(twin) || difference == 0);
            spin_loop();
        }
    });
    writer.join().unwrap();
    reader.join().unwrap();
}
