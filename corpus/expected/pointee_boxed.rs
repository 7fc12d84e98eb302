// A field behind an `Arc` and an `UnsafeCell` that claims to be `Sync` and is not.
//@ build: O0 O2 O2+debugfile
//@ expect: what=* pointee=Settings.limit functions=set_limit,limit
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::thread;

const ROUNDS: u32 = 4_000_000;

struct Settings {
    _version: u32,
    limit: u64,
}

struct Shared(UnsafeCell<Settings>);

// SAFETY: not sound, which is the point.
unsafe impl Sync for Shared {}

#[inline(never)]
fn set_limit(settings: *mut Settings, limit: u64) {
    // SAFETY: there is none; this is one side of the race.
    unsafe { (*settings).limit = limit }
}

#[inline(never)]
fn limit(settings: *const Settings) -> u64 {
    // SAFETY: there is none; this is the other side.
    unsafe { (*settings).limit }
}

fn pause() {
    for _ in 0..4 {
        spin_loop();
    }
}

fn main() {
    let shared = Arc::new(Shared(UnsafeCell::new(Settings {
        _version: 1,
        limit: 10,
    })));
    let other = Arc::clone(&shared);
    let writer = thread::spawn(move || {
        for round in 0..ROUNDS {
            set_limit(other.0.get(), u64::from(round));
            pause();
        }
    });
    let reader = thread::spawn(move || {
        for _ in 0..ROUNDS {
            std::hint::black_box(limit(shared.0.get()));
            pause();
        }
    });
    writer.join().unwrap();
    reader.join().unwrap();
}
