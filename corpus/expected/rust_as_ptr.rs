// An AtomicU64 whose reader goes round it, through as_ptr: a plain read against a store. The
// variable is declared atomic and nothing tells the type of the read, so that it may also be
// called possibly atomic.
//@ build: O2
//@ full: O0 O2+nodebug O2+stripped O3 O2+dwarf4
//@ expect: class=* what=TOTAL functions=~add,peek
use std::hint::{black_box, spin_loop};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

static TOTAL: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn add(n: u64) {
    TOTAL.fetch_add(n, Relaxed);
}

#[inline(never)]
fn peek() -> u64 {
    // SAFETY: wrong on purpose.
    unsafe { *TOTAL.as_ptr() + 1 }
}

fn main() {
    let adder = thread::spawn(|| {
        for n in 0..300_000 {
            add(n);
            spin_loop();
        }
    });
    for _ in 0..300_000 {
        black_box(peek());
        spin_loop();
    }
    adder.join().unwrap();
}
