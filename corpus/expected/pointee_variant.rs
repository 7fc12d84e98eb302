// The variant of a Rust enum behind a reference that claims to be unshared and is not.
//@ build: O0 O2 O2+debugfile
//@ expect: what=* pointee=Worker.mode typed=Mode::Slow,Mode::Fast functions=slow,fast
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::thread;

const ROUNDS: u32 = 4_000_000;

#[derive(Clone, Copy)]
pub enum Mode {
    Slow,
    Fast,
}

pub struct Worker {
    pub number: u64,
    pub mode: Mode,
}

struct Shared(UnsafeCell<Worker>);

// SAFETY: not sound, which is the point.
unsafe impl Sync for Shared {}

#[inline(never)]
fn slow(worker: &mut Worker) {
    worker.mode = Mode::Slow;
}

#[inline(never)]
fn fast(worker: &mut Worker) {
    worker.mode = Mode::Fast;
}

fn turns(shared: &Shared, set: fn(&mut Worker)) {
    for _ in 0..ROUNDS {
        // SAFETY: there is none; this is the race.
        set(unsafe { &mut *shared.0.get() });
        for _ in 0..4 {
            spin_loop();
        }
    }
}

fn main() {
    let shared = Arc::new(Shared(UnsafeCell::new(Worker {
        number: 1,
        mode: Mode::Slow,
    })));
    let other = Arc::clone(&shared);
    let one = thread::spawn(move || turns(&other, slow));
    turns(&shared, fast);
    one.join().unwrap();
    // SAFETY: the other thread has ended.
    let worker = unsafe { &*shared.0.get() };
    std::process::exit(i32::from(worker.number as u8 + worker.mode as u8 > 9));
}
