// An UnsafeCell that relaxed atomics and fences guard: the accesses of the cell are plain, the
// turn is atomic, and the fences order them.
//@ build: O0 O2
//@ full: O2+lines O2+nodebug O2+stripped O3
//@ focus: is_mine hand_over guarded_bump
//@ twin-expect: what=CELL functions=guarded_bump,guarded_bump
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, fence};
use std::thread;

struct Shared(UnsafeCell<u64>);

// SAFETY: TURN says whose the cell is, except in the twin.
unsafe impl Sync for Shared {}

static CELL: Shared = Shared(UnsafeCell::new(0));
static TURN: AtomicU8 = AtomicU8::new(0);

#[inline(never)]
fn is_mine(me: u8) -> bool {
    let mine = TURN.load(Relaxed) == me;
    fence(Acquire);
    mine
}

#[inline(never)]
fn hand_over(to: u8) {
    fence(Release);
    TURN.store(to, Relaxed);
}

#[inline(never)]
fn guarded_bump() {
    // SAFETY: it is this thread's turn, except in the twin.
    unsafe { *CELL.0.get() += 1 }
}

fn work(me: u8) {
    let guarded = black_box(!cfg!(twin));
    for _ in 0..if guarded { 20_000 } else { 300_000 } {
        let mut turns = 0;
        while guarded && !is_mine(me) {
            turns += 1;
            if turns < 50 {
                spin_loop();
            } else {
                thread::yield_now();
            }
        }
        guarded_bump();
        if guarded {
            hand_over(1 - me);
        }
        spin_loop();
    }
}

fn main() {
    let first = thread::spawn(|| work(0));
    let second = thread::spawn(|| work(1));
    first.join().unwrap();
    second.join().unwrap();
}
