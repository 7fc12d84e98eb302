// A type called AtomicTally with methods called load and store, all of them plain.
//@ build: O2
//@ full: O0 O2+lines O2+dwarf4 O3 O2+lto
//@ expect: what=TALLY functions=store,load
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::thread;

struct AtomicTally(UnsafeCell<u64>);

// SAFETY: there is none; that is the bug.
unsafe impl Sync for AtomicTally {}

static TALLY: AtomicTally = AtomicTally(UnsafeCell::new(0));

impl AtomicTally {
    #[inline(never)]
    fn store(&self, value: u64) {
        // SAFETY: there is none; this is one side of the race.
        unsafe { *self.0.get() = value }
    }

    #[inline(never)]
    fn load(&self) -> u64 {
        // SAFETY: there is none; this is the other side.
        unsafe { *self.0.get() }
    }
}

fn main() {
    let writer = thread::spawn(|| {
        for round in 0..300_000 {
            TALLY.store(round);
            spin_loop();
        }
    });
    let reader = thread::spawn(|| {
        for _ in 0..300_000 {
            black_box(TALLY.load());
            spin_loop();
        }
    });
    writer.join().unwrap();
    reader.join().unwrap();
}
