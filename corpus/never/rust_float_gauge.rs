// A gauge of f64 that is kept as the bits of an AtomicU64 behind an Arc. LLVM loads the bits
// as a number, or folds the load into the addition: no frame at the instruction is atomic.
//@ build: O2
//@ full: O0 O2+lines O2+nodebug O2+stripped O2+dwarf4
//@ allow: possibly-atomic
//@ focus: look tell
// LLVM may load the bits before it looks whether they are wanted: then that load shows nothing.
//@ twin-expect: what=* functions=~look,tell class=*
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

struct Gauge {
    offset: f64,
    bits: AtomicU64,
}

impl Gauge {
    fn get(&self) -> f64 {
        if cfg!(twin) {
            // SAFETY: wrong on purpose.
            return unsafe { *self.bits.as_ptr().cast::<f64>() };
        }
        f64::from_bits(self.bits.load(Relaxed))
    }
}

#[inline(never)]
fn look(gauge: &Gauge, k: f64) -> f64 {
    if gauge.get() > k + gauge.offset {
        return k;
    }
    let seen = gauge.get();
    k + seen
}

#[inline(never)]
fn tell(gauge: &Gauge, level: f64) {
    if cfg!(twin) {
        // SAFETY: wrong on purpose.
        unsafe { *gauge.bits.as_ptr() = level.to_bits() }
    } else {
        gauge.bits.store(level.to_bits(), Relaxed);
    }
}

fn main() {
    let gauge = Arc::new(Gauge { offset: 0.5, bits: AtomicU64::new(0) });
    let other = Arc::clone(&gauge);
    let teller = thread::spawn(move || {
        for n in 0..300_000 {
            tell(&other, f64::from(n));
            spin_loop();
        }
    });
    for n in 0..300_000 {
        black_box(look(&gauge, f64::from(n)));
        spin_loop();
    }
    teller.join().unwrap();
}
