// A `static mut` counter, incremented by two threads.
//@ build: O0 O2 O2+static-pie
//@ expect: what=HITS functions=count_hit,count_hit
use std::hint::spin_loop;
use std::thread;

// Long enough that the runtime's start is a small part of it.
const ROUNDS: u32 = 40_000_000;

static mut HITS: u64 = 0;

#[inline(never)]
fn count_hit() {
    // SAFETY: there is none; this is the race.
    unsafe {
        let hits = &raw mut HITS;
        *hits = (*hits).wrapping_add(1);
    }
}

fn worker() {
    for _ in 0..ROUNDS {
        count_hit();
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
