// A loop over the plain halves of pairs is vectorised and reads the atomic halves, too, which
// another thread writes. All of it is safe Rust.
//@ build: O3
//@ full: O2 O3+lines Os O3+lto
//@ focus: sum_plain set_atomic
//@ allow: possibly-atomic
//@ twin-expect: what=TOTAL functions=sum_plain,set_atomic
use std::hint::black_box;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

struct Pair {
    plain: i32,
    atomic: AtomicI32,
}

static PAIRS: [Pair; 64] = [const {
    Pair {
        plain: 1,
        atomic: AtomicI32::new(0),
    }
}; 64];

#[cfg(twin)]
static mut TOTAL: i32 = 0;

#[inline(never)]
fn sum_plain(pairs: &[Pair]) -> i32 {
    #[cfg(twin)]
    // SAFETY: there is none; this is one side of the race.
    return pairs[0].plain + unsafe { *(&raw const TOTAL) };
    #[cfg(not(twin))]
    pairs
        .iter()
        .fold(0i32, |sum, pair| sum.wrapping_add(pair.plain))
}

#[inline(never)]
fn set_atomic(pairs: &[Pair], to: i32) {
    #[cfg(twin)]
    // SAFETY: there is none; this is the other side.
    unsafe {
        *(&raw mut TOTAL) = to
    };
    pairs[to as usize % 64].atomic.store(to, Ordering::Relaxed);
}

fn main() {
    let reader = thread::spawn(|| {
        for _ in 0..100_000 {
            black_box(sum_plain(black_box(&PAIRS)));
        }
    });
    let writer = thread::spawn(|| {
        for i in 0..1_000_000 {
            set_atomic(black_box(&PAIRS), i);
        }
    });
    reader.join().unwrap();
    writer.join().unwrap();
}
