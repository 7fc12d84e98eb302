// A generic spin lock with a guard that derefs, whose AtomicBool lies beside the data; and
// atomics made of plain integers by AtomicU32::from_ptr.
//@ build: O2
//@ full: O0 O2+lines O2+nodebug O2+stripped O3 O2+dwarf4 O2+lto
//@ focus: lock drop work tick
//@ twin-expect: what=SHARED functions=~work,~work
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;

struct Spin<T> {
    taken: AtomicBool,
    data: UnsafeCell<T>,
}

// SAFETY: `taken` guards the data, except in the twin.
unsafe impl<T: Send> Sync for Spin<T> {}

struct Guard<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    #[inline(never)]
    fn lock(&self) -> Guard<'_, T> {
        let mut turns = 0;
        while !cfg!(twin) && self.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            while self.taken.load(Relaxed) {
                turns += 1;
                if turns % 50 == 0 { thread::yield_now() } else { spin_loop() }
            }
        }
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.data.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held.
        unsafe { &mut *self.0.data.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(never)]
    fn drop(&mut self) {
        self.0.taken.store(false, Release);
    }
}

#[derive(Default)]
struct Books {
    entries: [u16; 5],
    sum: u64,
    last: Option<u32>,
}

static SHARED: Spin<Books> = Spin {
    taken: AtomicBool::new(false),
    data: UnsafeCell::new(Books { entries: [0; 5], sum: 0, last: None }),
};

struct Word(UnsafeCell<u32>);
// SAFETY: every access goes through an atomic.
unsafe impl Sync for Word {}
static TICKS: Word = Word(UnsafeCell::new(0));

#[inline(never)]
fn tick(i: u32) -> u32 {
    // SAFETY: the pointer is valid for ever, and nobody accesses the word otherwise.
    let ticks = unsafe { AtomicU32::from_ptr(TICKS.0.get()) };
    ticks.store(if ticks.load(Relaxed) > i { i } else { i + 1 }, Relaxed);
    ticks.load(Acquire)
}

#[inline(never)]
fn work(i: u32) {
    let mut books = SHARED.lock();
    books.entries[i as usize % 5] = i as u16;
    books.sum += u64::from(i);
    books.last = books.last.map_or(Some(i), |last| (last != i).then_some(i));
}

fn main() {
    let threads: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn(|| {
                for i in 0..if cfg!(twin) { 300_000 } else { 60_000 } {
                    work(i);
                    std::hint::black_box(tick(i));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
