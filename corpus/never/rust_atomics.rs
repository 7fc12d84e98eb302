// core::sync::atomic: a relaxed counter with one writer and a message guarded
// by a flag. In the twin the counter is plain and nobody asks the flag.
//@ build: O0 O2 O2+stripped
//@ full: O2+lines O3+lto+lines O2+g1 O2+nodebug Os
//@ focus: write_message read_message
//@ twin-expect: what=MESSAGE functions=write_message,read_message
//@ twin-expect: what=PROGRESS functions=publish,observe
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
#[cfg(not(twin))]
use std::sync::atomic::AtomicU64;
#[cfg(not(twin))]
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

const ROUNDS: u32 = 300_000;

struct Message(UnsafeCell<[u64; 2]>);

// SAFETY: FULL says whose the message is, except in the twin.
unsafe impl Sync for Message {}

#[cfg(not(twin))]
static PROGRESS: AtomicU64 = AtomicU64::new(0);
#[cfg(not(twin))]
static FULL: AtomicU64 = AtomicU64::new(0);
#[cfg(twin)]
static mut PROGRESS: u64 = 0;

static MESSAGE: Message = Message(UnsafeCell::new([0; 2]));

#[inline(never)]
fn publish(done: u64) {
    #[cfg(not(twin))]
    PROGRESS.store(done, Relaxed);
    #[cfg(twin)]
    // SAFETY: there is none; this is one side of the race.
    unsafe {
        *(&raw mut PROGRESS) = done
    }
}

#[inline(never)]
fn observe() -> u64 {
    #[cfg(not(twin))]
    return PROGRESS.load(Relaxed);
    #[cfg(twin)]
    // SAFETY: there is none; this is the other side.
    unsafe {
        *(&raw const PROGRESS)
    }
}

fn is_full(wanted: u64) -> bool {
    #[cfg(not(twin))]
    return FULL.load(Acquire) == wanted;
    #[cfg(twin)]
    return wanted < 2;
}

fn set_full(now: u64) {
    #[cfg(not(twin))]
    FULL.store(now, Release);
    #[cfg(twin)]
    black_box(now);
}

#[inline(never)]
fn write_message(text: u64) {
    // SAFETY: FULL is 0, so the message is the sender's, except in the twin.
    unsafe { *MESSAGE.0.get() = [text, 1] }
}

#[inline(never)]
fn read_message() -> u64 {
    // SAFETY: FULL is 1, so the message is the receiver's, except in the twin.
    unsafe {
        let message = MESSAGE.0.get();
        (*message)[1] = 0;
        (*message)[0]
    }
}

fn pause() {
    for _ in 0..4 {
        spin_loop();
    }
}

fn sender() {
    for round in 0..ROUNDS {
        publish(u64::from(round));
        if is_full(0) {
            write_message(u64::from(round));
            set_full(1);
        }
        pause();
    }
}

fn receiver() {
    for _ in 0..ROUNDS {
        black_box(observe());
        if is_full(1) {
            black_box(read_message());
            set_full(0);
        }
        pause();
    }
}

fn main() {
    let sender = thread::spawn(sender);
    let receiver = thread::spawn(receiver);
    sender.join().unwrap();
    receiver.join().unwrap();
}
