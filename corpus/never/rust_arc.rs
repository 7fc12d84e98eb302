// Arc counts its users atomically; the last one drops the value. The pointers are copied
// under a lock.
//@ build: O2 O2+lines
//@ full: O0 O3+lto O2+nodebug O2+stripped Os O2+g1
//@ focus: look replace
//@ twin-expect: what=ONLY functions=look,replace
use std::hint::{black_box, spin_loop};
use std::sync::{Arc, Mutex};
use std::thread;

static CURRENT: Mutex<Option<Arc<[u64; 4]>>> = Mutex::new(None);
#[cfg(twin)]
static mut ONLY: u64 = 0;

#[inline(never)]
fn look() -> u64 {
    #[cfg(twin)]
    // SAFETY: there is none; this is one side of the race.
    return unsafe { *(&raw const ONLY) };
    #[cfg(not(twin))]
    {
        let mine = CURRENT.lock().unwrap().clone();
        mine.map_or(0, |value| value[1])
    }
}

#[inline(never)]
fn replace(with: u64) {
    #[cfg(twin)]
    // SAFETY: there is none; this is the other side.
    unsafe {
        *(&raw mut ONLY) = with
    };
    #[cfg(not(twin))]
    {
        let next = Some(Arc::new([with; 4]));
        let old = std::mem::replace(&mut *CURRENT.lock().unwrap(), next);
        drop(old);
    }
}

fn main() {
    black_box(&CURRENT);
    let reader = thread::spawn(|| {
        for _ in 0..100_000 {
            black_box(look());
            spin_loop();
        }
    });
    let writer = thread::spawn(|| {
        for round in 0..100_000 {
            replace(round);
            spin_loop();
        }
    });
    reader.join().unwrap();
    writer.join().unwrap();
}
