// A table behind a std::sync::RwLock, one writer and two readers.
//@ build: O0 O2
//@ full: O2+lines O3+lto+lines O2+g1 O2+nodebug O2+stripped Os
//@ focus: change_entry read_entry
//@ twin-expect: what=TABLE functions=change_entry,read_entry
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::RwLock;
use std::thread;

const ROUNDS: u32 = 100_000;

struct Table(UnsafeCell<[u64; 4]>);

// SAFETY: every access is made under LOCK, except in the twin.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new([0; 4]));
static LOCK: RwLock<()> = RwLock::new(());

#[inline(never)]
fn change_entry(at: usize, value: u64) {
    // SAFETY: the caller holds LOCK for writing, except in the twin.
    unsafe { (*TABLE.0.get())[at & 3] = value }
}

#[inline(never)]
fn read_entry(at: usize) -> u64 {
    // SAFETY: the caller holds LOCK for reading, except in the twin.
    unsafe { (*TABLE.0.get())[at & 3] }
}

fn pause() {
    for _ in 0..8 {
        spin_loop();
    }
}

fn writer() {
    for round in 0..ROUNDS {
        let hold = (!cfg!(twin)).then(|| LOCK.write().unwrap());
        change_entry(1, u64::from(round));
        drop(hold);
        pause();
    }
}

fn reader() {
    for _ in 0..ROUNDS {
        let hold = (!cfg!(twin)).then(|| LOCK.read().unwrap());
        black_box(read_entry(1));
        drop(hold);
        pause();
    }
}

fn main() {
    let threads = [thread::spawn(writer), thread::spawn(reader), thread::spawn(reader)];
    for thread in threads {
        thread.join().unwrap();
    }
}
