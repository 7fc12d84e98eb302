// Relaxed atomics behind macro_rules!, operators and pointers: the statements look like those on plain integers.
//@ full: O2 O0 O3 O2+lines O2+nodebug
//@ focus: put get note
//@ twin-expect: what=BARE functions=put,get
use std::hint::{black_box, spin_loop};
use std::ops::AddAssign;
use std::ptr::addr_of_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;

#[repr(transparent)]
struct Tally(AtomicU64);

impl AddAssign<u64> for &Tally {
    #[inline]
    fn add_assign(&mut self, more: u64) {
        self.0.store(self.0.load(Relaxed) + more, Relaxed);
    }
}

macro_rules! bump {
    ($place:expr) => {
        $place.store($place.load(Relaxed).wrapping_add(1), Relaxed)
    };
}

static mut BARE: u32 = 0;
static HITS: Tally = Tally(AtomicU64::new(0));
static STEPS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

static mut NOTES: [u64; 2] = [0; 2];

#[inline(never)]
fn note(who: usize) {
    // SAFETY: each thread has its own.
    unsafe { NOTES[who] += 1 };
}

#[inline(never)]
fn put(i: u32) {
    if cfg!(twin) {
        // SAFETY: wrong on purpose.
        unsafe { BARE = i };
        return;
    }
    // SAFETY: all threads make atomic accesses only.
    unsafe { AtomicU32::from_ptr(addr_of_mut!(BARE)) }.store(i, Relaxed);
    let mut tally = &HITS;
    tally += 1;
    bump!(STEPS[(i & 1) as usize]);
}

#[inline(never)]
fn get(i: u32) -> u64 {
    if cfg!(twin) {
        // SAFETY: wrong on purpose.
        return u64::from(unsafe { BARE });
    }
    // SAFETY: all threads make atomic accesses only.
    let bare = unsafe { AtomicU32::from_ptr(addr_of_mut!(BARE)) }.load(Relaxed);
    u64::from(bare) + HITS.0.load(Relaxed) + u64::from(STEPS[(i & 1) as usize].load(Relaxed))
}

fn main() {
    let writer = thread::spawn(|| {
        for i in 0..400_000 {
            put(i);
            note(0);
            spin_loop();
        }
    });
    let reader = thread::spawn(|| {
        for i in 0..400_000 {
            black_box(get(i));
            note(1);
            spin_loop();
        }
    });
    writer.join().unwrap();
    reader.join().unwrap();
}
