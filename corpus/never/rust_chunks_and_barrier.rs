// Scoped threads own odd shares of one array of bytes, whose border no vector respects, and change roles at a
// std::sync::Barrier; after each phase one of them reads what the other wrote.
//@ build: O2
//@ full: O0 O2+lines O2+nodebug O2+stripped O3 O2+dwarf4 Os
//@ focus: blend total
//@ twin-expect: what=BYTES functions=blend,~total
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

const LENGTH: usize = 203;
const BORDER: usize = 77;

struct Bytes(UnsafeCell<[u8; LENGTH]>);
// SAFETY: the barrier orders all accesses, but for the twin, which is wrong on purpose.
unsafe impl Sync for Bytes {}

static BYTES: Bytes = Bytes(UnsafeCell::new([0; LENGTH]));

fn share(from: usize, to: usize) -> &'static mut [u8] {
    // SAFETY: shares that are in use at the same time do not overlap, but for the twin.
    unsafe { std::slice::from_raw_parts_mut(BYTES.0.get().cast::<u8>().add(from), to - from) }
}

#[inline(never)]
fn blend(share: &mut [u8], by: u8) {
    for byte in share {
        *byte = byte.wrapping_mul(3).wrapping_add(by);
    }
}

#[inline(never)]
fn total(share: &[u8]) -> u64 {
    share.iter().map(|&byte| u64::from(byte)).sum()
}

fn main() {
    let barrier = Barrier::new(2);
    let rounds = if cfg!(twin) { 200_000 } else { 12_000 };
    let phase = |who: usize, i: usize| {
        if cfg!(twin) {
            if who == 0 {
                blend(share(0, LENGTH), i as u8);
            } else {
                black_box(total(share(0, LENGTH)));
            }
            return;
        }
        let border = if i % 2 == 0 { BORDER } else { LENGTH - BORDER };
        let (mine, other) = match who {
            0 => ((0, border), (border, LENGTH)),
            _ => ((border, LENGTH), (0, border)),
        };
        for by in 0..4 {
            blend(share(mine.0, mine.1), by);
        }
        barrier.wait();
        black_box(total(share(other.0, other.1)));
        barrier.wait();
    };
    thread::scope(|scope| {
        for who in 0..2 {
            let phase = &phase;
            scope.spawn(move || (0..rounds).for_each(|i| phase(who, i)));
        }
    });
}
