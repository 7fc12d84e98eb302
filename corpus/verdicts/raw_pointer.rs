// A raw pointer and a pair, shared without order.
//@ race: what=CURRENT truth=harmful category=publication
//@ race: what=RANGE truth=harmful category=torn-value
//@ reason: the pointer's target may not be ready, and the pair can be half of each
use std::hint::{black_box, spin_loop};
use std::thread;

static mut SLOTS: [u64; 8] = [0; 8];
static mut CURRENT: *const u64 = std::ptr::null();
static mut RANGE: (u64, u64) = (0, 0);

#[inline(never)]
fn publish(i: usize) {
    unsafe {
        let slot = (&raw mut SLOTS).cast::<u64>().add(i % 8);
        *slot = i as u64;
        CURRENT = slot;
    }
}

#[inline(never)]
fn follow() -> u64 {
    unsafe {
        let current = CURRENT;
        if current.is_null() { 0 } else { *current }
    }
}

#[inline(never)]
fn set_range(i: u64) {
    unsafe { RANGE = (i, i + 10) }
}

#[inline(never)]
fn get_range() -> (u64, u64) {
    unsafe { RANGE }
}

fn main() {
    let writer = thread::spawn(|| {
        for i in 0..400_000usize {
            publish(i);
            spin_loop();
            set_range(i as u64);
            spin_loop();
        }
    });
    let reader = thread::spawn(|| {
        for _ in 0..400_000 {
            black_box(follow());
            spin_loop();
            black_box(get_range());
            spin_loop();
        }
    });
    writer.join().unwrap();
    reader.join().unwrap();
}
