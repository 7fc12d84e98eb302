// A progress word behind a raw pointer, by ptr::read_volatile and write_volatile: one writer,
// one reader, each marked.
//@ build: O2
//@ full: O0 O2+lines O2+nodebug O2+stripped O3 O2+dwarf4
//@ focus: tell ask note
//@ twin-expect: what=PROGRESS functions=tell,ask
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::ptr;
use std::thread;

#[repr(C)]
struct Progress {
    before: u32,
    step: UnsafeCell<u32>,
}
// SAFETY: accessed by volatile loads and stores of a whole word only.
unsafe impl Sync for Progress {}
static PROGRESS: Progress = Progress { before: 0, step: UnsafeCell::new(0) };

#[inline(never)]
fn tell(n: u32) {
    let step = PROGRESS.step.get();
    // SAFETY: the pointer is valid.
    unsafe { if cfg!(twin) { *step = n } else { step.write_volatile(n) } }
}

#[inline(never)]
fn ask() -> u32 {
    let step = PROGRESS.step.get();
    // SAFETY: the pointer is valid.
    unsafe { if cfg!(twin) { *step } else { ptr::read_volatile(step) } }
}

struct Notes(UnsafeCell<[u64; 32]>);
// SAFETY: each thread has its own.
unsafe impl Sync for Notes {}
static NOTES: Notes = Notes(UnsafeCell::new([0; 32]));

#[inline(never)]
fn note(who: usize) {
    // SAFETY: nobody else has this element.
    unsafe { *NOTES.0.get().cast::<u64>().add(who * 16) += 1 }
}

fn main() {
    let teller = thread::spawn(|| {
        for n in 0..300_000 {
            tell(n);
            note(0);
            spin_loop();
        }
    });
    for _ in 0..300_000 {
        black_box(ask());
        note(1);
        spin_loop();
    }
    teller.join().unwrap();
    black_box(PROGRESS.before);
}
