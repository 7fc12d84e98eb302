//! The program of `redhanded demo`. It races on purpose: each seeded race is a
//! small copy of a kind that real programs have, beside a neighbour that does the
//! same thing right. The first three are the lock of the DataCollider talk.
//!
//! It is a crate of its own because its reports name variables, fields and lines:
//! it alone is built with full debug information in a release build.
#![expect(unsafe_code, reason = "data races are written with raw pointers")]

use std::cell::{Cell, UnsafeCell};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

/// What the compiler calls this file, and its text. Whoever runs the demo may not have it
/// where it was compiled, or at all.
pub const SOURCE: (&str, &str) = (file!(), include_str!("lib.rs"));

/// A variable of a demo, with what is done to it.
pub struct Variable {
    /// Its name.
    pub variable: &'static str,
    /// What is done to it.
    pub story: &'static str,
}

/// The races.
pub const SEEDED: &[Variable] = &[
    Variable {
        variable: "REFERENCE_COUNT",
        story: "MyLock guards it, and one thread forgets it",
    },
    Variable {
        variable: "STATISTICS",
        story: "a statistics counter nobody guards",
    },
    Variable {
        variable: "CONNECTION",
        story: "two flags in one byte, set by two threads",
    },
    Variable {
        variable: "LATEST",
        story: "a 32-byte record copied while it is written",
    },
];

/// The neighbours.
pub const NEIGHBOURS: &[Variable] = &[
    Variable {
        variable: "GUARDED_COUNT",
        story: "guarded by MyLock in every thread",
    },
    Variable {
        variable: "ATOMIC_STATISTICS",
        story: "an atomic statistics counter",
    },
    Variable {
        variable: "MUTEX_CONNECTION",
        story: "the flags under a mutex",
    },
    Variable {
        variable: "SHARED_RECORD",
        story: "the record under a read-write lock",
    },
];

/// Memory that threads share without the compiler's consent.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: it is not safe; that is what the demo shows. The values are plain
// numbers, for which a lost or torn update is wrong but harmless.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
}

#[derive(Clone, Copy)]
struct Flags {
    state: u8,
}

#[derive(Clone, Copy, PartialEq)]
#[repr(C, align(32))]
struct Record {
    sequence: u64,
    price: u64,
    volume: u64,
    checksum: u64,
}

const INITIALIZED: u8 = 1;
const QUEUED_FOR_CLOSING: u8 = 2;
const EMPTY: Record = Record {
    sequence: 0,
    price: 0,
    volume: 0,
    checksum: 0,
};

static MY_LOCK: AtomicBool = AtomicBool::new(false);
static REFERENCE_COUNT: Shared<u64> = Shared::new(0);
static GUARDED_COUNT: Shared<u64> = Shared::new(0);
static STATISTICS: Shared<u64> = Shared::new(0);
static ATOMIC_STATISTICS: AtomicU64 = AtomicU64::new(0);
static CONNECTION: Shared<Flags> = Shared::new(Flags { state: 0 });
static MUTEX_CONNECTION: Mutex<Flags> = Mutex::new(Flags { state: 0 });
static LATEST: Shared<Record> = Shared::new(EMPTY);
static SHARED_RECORD: RwLock<Record> = RwLock::new(EMPTY);

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
}

fn my_lock_acquire() {
    while MY_LOCK.swap(true, Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

fn my_lock_release() {
    MY_LOCK.store(false, Ordering::Release);
}

#[inline(never)]
fn guarded_work() {
    my_lock_acquire();
    // SAFETY: under the lock, except for what `forgetful_work` does.
    unsafe {
        *REFERENCE_COUNT.0.get() += 1;
        *GUARDED_COUNT.0.get() += 1;
    }
    my_lock_release();
}

#[inline(never)]
fn forgetful_work() {
    // SAFETY: none; the lock is forgotten on purpose.
    unsafe { *REFERENCE_COUNT.0.get() += 1 }
}

#[inline(never)]
fn count_statistics() {
    // SAFETY: none; a counter of which an exact value is not needed, they say.
    unsafe { *STATISTICS.0.get() += 1 }
    ATOMIC_STATISTICS.fetch_add(1, Ordering::Relaxed);
    OWN.set(OWN.get() + 1);
}

#[inline(never)]
fn initialize_connection() {
    // Set and cleared by turns: if it were set all the time, nothing could be lost.
    // SAFETY: none; the other flag of the byte belongs to another thread.
    unsafe { (*CONNECTION.0.get()).state ^= INITIALIZED }
    if let Ok(mut flags) = MUTEX_CONNECTION.lock() {
        flags.state ^= INITIALIZED;
    }
}

#[inline(never)]
fn queue_for_closing() {
    // SAFETY: none; see `initialize_connection`.
    unsafe { (*CONNECTION.0.get()).state ^= QUEUED_FOR_CLOSING }
    if let Ok(mut flags) = MUTEX_CONNECTION.lock() {
        flags.state ^= QUEUED_FOR_CLOSING;
    }
}

#[inline(never)]
fn publish_record(sequence: u64) {
    let record = Record {
        sequence,
        price: sequence.wrapping_mul(3),
        volume: sequence / 2,
        checksum: !sequence,
    };
    // SAFETY: none; the reader may see half of it.
    unsafe { *LATEST.0.get() = black_box(record) }
    if let Ok(mut shared) = SHARED_RECORD.write() {
        *shared = record;
    }
}

#[inline(never)]
fn read_record() -> u64 {
    // SAFETY: none; see `publish_record`.
    let record = unsafe { black_box(*LATEST.0.get()) };
    let shared = SHARED_RECORD.read().map_or(0, |shared| shared.checksum);
    record.checksum ^ shared
}

/// A moment of work between accesses, so that the threads are not all in one
/// place all the time.
fn think(turn: u64) {
    for step in 0..turn % 97 {
        black_box(step);
    }
}

/// Runs the threads for as long as a demo needs.
pub fn main() {
    let end = Instant::now() + Duration::from_secs(20);
    let work = |first: fn(), second: fn(), publishes: bool| {
        move || {
            for turn in 0.. {
                first();
                think(turn);
                second();
                count_statistics();
                if publishes {
                    publish_record(turn);
                } else {
                    black_box(read_record());
                }
                if turn % 1024 == 0 && Instant::now() > end {
                    break;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            // A thread that cannot be started is one fewer to watch.
            let _ = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn_scoped(scope, body);
        };
        spawn(
            "worker-a",
            Box::new(work(guarded_work, initialize_connection, true)),
        );
        spawn(
            "worker-b",
            Box::new(work(guarded_work, queue_for_closing, false)),
        );
        spawn(
            "forgetful",
            Box::new(work(forgetful_work, read_nothing, false)),
        );
    });
}

fn read_nothing() {
    black_box(read_record());
}
