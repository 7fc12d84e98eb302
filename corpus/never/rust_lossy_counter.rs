// Two threads count by `store(load + 1)`. Counts are lost, but every access is atomic: an
// atomicity violation, no data race. Only the source shows it.
//@ build: O0 O2
//@ full: O3 O2+dwarf4 Os O2+debugfile
//@ focus: count note
//@ twin-expect: what=COUNTER functions=count,count
use std::hint::{black_box, spin_loop};
#[cfg(not(twin))]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

#[cfg(not(twin))]
static COUNTER: AtomicU64 = AtomicU64::new(0);
#[cfg(twin)]
static mut COUNTER: u64 = 0;

#[inline(never)]
fn count() {
    #[cfg(not(twin))]
    COUNTER.store(COUNTER.load(Relaxed) + 1, Relaxed);
    #[cfg(twin)]
    // SAFETY: there is none; this is both sides of the race.
    unsafe {
        let counter = &raw mut COUNTER;
        *counter += 1;
    }
}

// Something plain to look at, which is this thread's own.
#[inline(never)]
fn note(own: &mut u64) {
    *own += 1;
}

fn counting() {
    let mut own = Box::new(0);
    for _ in 0..300_000 {
        count();
        note(black_box(&mut own));
        for _ in 0..4 {
            spin_loop();
        }
    }
}

fn main() {
    let first = thread::spawn(counting);
    let second = thread::spawn(counting);
    first.join().unwrap();
    second.join().unwrap();
}
