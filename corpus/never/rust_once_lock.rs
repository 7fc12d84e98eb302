// Tables made on first use behind OnceLock. The twin makes them by hand.
//@ build: O0 O2
//@ full: O2+lines O3+lto+lines O2+g1 O2+nodebug O2+stripped Os
//@ focus: look_up
//@ twin-expect: what=* functions=~look_up,~look_up
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::{Barrier, OnceLock};
use std::thread;

const TABLES: usize = 64;

struct Lazy {
    once: OnceLock<()>,
    made: UnsafeCell<bool>,
    rows: UnsafeCell<[u64; 8]>,
}

// SAFETY: `rows` is written inside `once` and only read after it, except in the
// twin, which has only `made`.
unsafe impl Sync for Lazy {}

static LAZY: [Lazy; TABLES] = [const {
    Lazy {
        once: OnceLock::new(),
        made: UnsafeCell::new(false),
        rows: UnsafeCell::new([0; 8]),
    }
}; TABLES];

fn pause(turns: u32) {
    for _ in 0..turns {
        spin_loop();
    }
}

#[inline(never)]
fn look_up(lazy: &Lazy, row: usize) -> u64 {
    let fill = || {
        for row in 0..8 {
            pause(20);
            // SAFETY: nobody reads `rows` before this has ended, except in the twin.
            unsafe { (*lazy.rows.get())[row] = row as u64 }
        }
    };
    if cfg!(twin) {
        // SAFETY: there is none; this is the race.
        unsafe {
            if !*lazy.made.get() {
                fill();
                *lazy.made.get() = true;
            }
        }
    } else {
        lazy.once.get_or_init(fill);
    }
    // SAFETY: made above, and never changed again.
    unsafe { (*lazy.rows.get())[row & 7] }
}

fn main() {
    let gate = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                gate.wait();
                for pass in 0..1500 {
                    for lazy in &LAZY {
                        black_box(look_up(lazy, pass));
                    }
                    pause(200);
                }
            });
        }
    });
}
