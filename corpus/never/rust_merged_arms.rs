// Two arms on one line, whose atomic stores the compiler merges into one: nothing is left of the functions
// that were inlined, and the place is that of their caller.
//@ build: O2
//@ full: O3 Os O2+lines
//@ allow: possibly-atomic
//@ focus: put get bump
//@ twin-expect: what=COUNT functions=bump,bump
use std::hint::{black_box, spin_loop};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

struct Level(AtomicU64);

impl Level {
    #[inline]
    fn once(&self, v: u64) {
        self.0.store(v, Relaxed);
    }

    #[inline]
    fn twice(&self, v: u64) {
        self.0.store(v * 2, Release);
    }
}

static mut COUNT: u64 = 0;

#[rustfmt::skip]
#[inline(never)]
fn put(level: &Level, v: u64) { if v & 4 == 0 { level.once(v) } else { level.twice(v) } }

#[inline(never)]
fn get(level: &Level) -> u64 {
    level.0.load(Acquire)
}

#[inline(never)]
fn bump() {
    // SAFETY: one thread only calls it, except in the twin.
    unsafe { COUNT += 1 }
}

fn work(level: &Level, first: bool) {
    for i in 0..300_000 {
        put(level, i);
        black_box(get(level));
        if first || cfg!(twin) {
            bump();
        }
        for _ in 0..20 {
            spin_loop();
        }
    }
}

fn main() {
    // On the heap, where no variable tells the type.
    let level: &'static Level = Box::leak(Box::new(Level(AtomicU64::new(0))));
    let one = thread::spawn(|| work(level, true));
    let two = thread::spawn(|| work(level, false));
    one.join().unwrap();
    two.join().unwrap();
}
