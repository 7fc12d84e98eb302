// A ticket lock that hands on by `store(load + 1)`, which is compiled to one unlocked `inc`.
// One thread at a time is in there: no data race, and no lost update.
//@ build: O2 O2+nodebug O3+lines
//@ full: O0 O2+g1 O2+stripped Os O3+lto+lines O2+dwarf4 O2+split
//@ focus: enter leave guarded_bump
//@ twin-expect: what=BALANCE functions=guarded_bump,guarded_bump
use std::hint::{black_box, spin_loop};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

static NEXT: AtomicU64 = AtomicU64::new(0);
static SERVING: AtomicU64 = AtomicU64::new(0);
static mut BALANCE: u64 = 0;

#[inline(never)]
fn enter() {
    let mine = NEXT.fetch_add(1, Relaxed);
    let mut turns = 0;
    while SERVING.load(Acquire) != mine {
        turns += 1;
        if turns < 50 {
            spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

#[inline(never)]
fn leave() {
    SERVING.store(SERVING.load(Relaxed) + 1, Release);
}

#[inline(never)]
fn guarded_bump() {
    // SAFETY: this thread has the lock, except in the twin.
    unsafe {
        let balance = &raw mut BALANCE;
        *balance += 1;
    }
}

fn worker() {
    let guarded = black_box(!cfg!(twin));
    for _ in 0..40_000 {
        if guarded {
            enter();
        }
        guarded_bump();
        if guarded {
            leave();
        }
        for _ in 0..4 {
            spin_loop();
        }
    }
}

fn main() {
    let first = thread::spawn(worker);
    let second = thread::spawn(worker);
    first.join().unwrap();
    second.join().unwrap();
}
