// A ring of UnsafeCell<MaybeUninit> between two threads, with two atomic indices of which each
// has one writer; each side keeps a plain copy of the other's index.
//@ build: O2
//@ full: O0 O2+lines O2+nodebug O2+stripped O3 O2+dwarf4 O2+lto
//@ focus: send receive
//@ twin-expect: what=RING functions=~send,~receive
use std::cell::{Cell, UnsafeCell};
use std::hint::{black_box, spin_loop};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

#[repr(align(64))]
struct Side {
    index: AtomicUsize,
    seen: Cell<usize>,
}

struct Ring {
    head: Side,
    tail: Side,
    slots: UnsafeCell<[MaybeUninit<(u64, u32)>; 16]>,
}

// SAFETY: a slot belongs to the side that the indices say; `seen` to one side alone.
unsafe impl Sync for Ring {}

static RING: Ring = Ring {
    head: Side { index: AtomicUsize::new(0), seen: Cell::new(0) },
    tail: Side { index: AtomicUsize::new(0), seen: Cell::new(0) },
    slots: UnsafeCell::new([MaybeUninit::uninit(); 16]),
};

#[inline(never)]
fn send(ring: &Ring, value: (u64, u32)) -> bool {
    let at = ring.tail.index.load(Relaxed);
    if !cfg!(twin) && at - ring.tail.seen.get() == 16 {
        ring.tail.seen.set(ring.head.index.load(Acquire));
        if at - ring.tail.seen.get() == 16 {
            return false;
        }
    }
    // SAFETY: the slot is empty, except in the twin.
    unsafe { (*ring.slots.get())[at % 16].write(value) };
    ring.tail.index.store(at + 1, Release);
    true
}

#[inline(never)]
fn receive(ring: &Ring) -> Option<(u64, u32)> {
    let at = ring.head.index.load(Relaxed);
    if !cfg!(twin) && at == ring.head.seen.get() {
        ring.head.seen.set(ring.tail.index.load(Acquire));
        if at == ring.head.seen.get() {
            return None;
        }
    }
    // SAFETY: the slot is full; in the twin it holds some number.
    let value = unsafe { (*ring.slots.get())[at % 16].assume_init_read() };
    ring.head.index.store(at + 1, Release);
    Some(value)
}

fn main() {
    const COUNT: u64 = if cfg!(twin) { 300_000 } else { 60_000 };
    let sender = thread::spawn(|| {
        for i in 0..COUNT {
            let mut turns = 0;
            while !send(&RING, (i, i as u32)) {
                turns += 1;
                if turns % 50 == 0 { thread::yield_now() } else { spin_loop() }
            }
        }
    });
    let receiver = thread::spawn(|| {
        for i in 0..COUNT {
            let mut turns = 0;
            loop {
                if let Some((number, copy)) = black_box(receive(&RING)) {
                    assert!(cfg!(twin) || (number == i && copy == i as u32));
                    break;
                }
                turns += 1;
                if turns % 50 == 0 { thread::yield_now() } else { spin_loop() }
            }
        }
    });
    sender.join().unwrap();
    receiver.join().unwrap();
}
