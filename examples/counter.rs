//! Two threads count in a `static mut`. Each `+= 1` loads, adds and stores, so
//! one thread overwrites what the other has just counted.
use std::thread;

static mut VISITS: u64 = 0;

#[inline(never)]
fn count_visits() {
    for _ in 0..50_000_000 {
        // SAFETY: none. This is the bug.
        unsafe { VISITS = std::hint::black_box(VISITS) + 1 };
    }
}

fn main() {
    let workers = [thread::spawn(count_visits), thread::spawn(count_visits)];
    for worker in workers {
        worker.join().unwrap();
    }
    println!("{} of 100000000 visits counted", unsafe { VISITS });
}
