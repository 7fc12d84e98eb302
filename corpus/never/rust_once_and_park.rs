// Once, LazyLock, thread::park and a Condvar from std, with a plain static that a Once makes.
//@ build: O2
//@ full: O0 O2+lines O2+nodebug O2+stripped O3 O2+dwarf4 O2+lto
//@ focus: table_at hand_over take_over
//@ twin-expect: what=BOX functions=hand_over,take_over
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{LazyLock, Once};
use std::thread;

static TABLE: LazyLock<Vec<u64>> = LazyLock::new(|| (0..64).map(|n| n * n).collect());
static FIRST: Once = Once::new();
static READY: AtomicBool = AtomicBool::new(false);

struct Shared(UnsafeCell<[u64; 4]>);
// SAFETY: READY says whose it is, except in the twin.
unsafe impl Sync for Shared {}
static BOX: Shared = Shared(UnsafeCell::new([0; 4]));

#[inline(never)]
fn table_at(n: u64) -> u64 {
    // SAFETY: nobody looks at the last element before the Once is done.
    FIRST.call_once(|| unsafe { (*BOX.0.get())[3] = 7 });
    TABLE[n as usize % 64] + unsafe { (*BOX.0.get())[3] }
}

#[inline(never)]
fn hand_over(n: u64) {
    // SAFETY: not ready, so it is ours.
    unsafe { (*BOX.0.get())[0] = n };
    READY.store(true, Release);
}

#[inline(never)]
fn take_over() -> u64 {
    // SAFETY: ready, so it is ours.
    let n = unsafe { (*BOX.0.get())[0] };
    READY.store(false, Release);
    n
}

fn main() {
    const COUNT: u64 = if cfg!(twin) { 300_000 } else { 20_000 };
    let taker = thread::spawn(|| {
        for i in 0..COUNT {
            while !cfg!(twin) && !READY.load(Acquire) {
                thread::park();
            }
            assert!(std::hint::black_box(take_over()) == i || cfg!(twin));
            std::hint::black_box(table_at(i));
        }
    });
    for i in 0..COUNT {
        let mut turns = 0;
        while !cfg!(twin) && READY.load(Acquire) {
            turns += 1;
            if turns % 50 == 0 { thread::yield_now() }
        }
        hand_over(i);
        taker.thread().unpark();
        std::hint::black_box(table_at(i));
    }
    taker.join().unwrap();
}
