// A cell that claims to be `Sync` and is not: one thread stores a field through
// a raw pointer, the other reads it.
//@ build: O0 O2 O2+stripped+nopie
//@ expect: what=SHARED functions=set_limit,limit
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::thread;

// Long enough that the runtime's start is a small part of it.
const ROUNDS: u32 = 40_000_000;

struct Settings {
    _version: u32,
    limit: u64,
}

struct Shared(UnsafeCell<Settings>);

// SAFETY: not sound, which is the point.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(Settings {
    _version: 1,
    limit: 10,
}));

#[inline(never)]
fn set_limit(limit: u64) {
    // SAFETY: there is none; this is one side of the race.
    unsafe { (*SHARED.0.get()).limit = limit }
}

#[inline(never)]
fn limit() -> u64 {
    // SAFETY: there is none; this is the other side.
    unsafe { (*SHARED.0.get()).limit }
}

fn pause() {
    for _ in 0..4 {
        spin_loop();
    }
}

fn main() {
    let writer = thread::spawn(|| {
        for round in 0..ROUNDS {
            set_limit(u64::from(round));
            pause();
        }
    });
    let reader = thread::spawn(|| {
        for _ in 0..ROUNDS {
            std::hint::black_box(limit());
            pause();
        }
    });
    writer.join().unwrap();
    reader.join().unwrap();
}
