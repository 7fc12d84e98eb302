// A lock by `asm!`: taken by xchg, released by a plain mov, which is a release on this
// processor.
//@ build: O0 O2
//@ full: O2+lines O2+nodebug O3
//@ focus: enter leave guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=BALANCE functions=guarded_bump,guarded_bump
use std::arch::asm;
use std::hint::{black_box, spin_loop};
use std::thread;

static mut LOCK: u32 = 0;
static mut BALANCE: u64 = 0;

#[inline(never)]
fn enter() {
    let lock = &raw mut LOCK;
    let mut turns = 0;
    loop {
        let mut old: u32 = 1;
        // SAFETY: an atomic exchange of an aligned word.
        unsafe { asm!("xchg [{lock}], {old:e}", lock = in(reg) lock, old = inout(reg) old) };
        if old == 0 {
            return;
        }
        let mut seen: u32 = 1;
        while seen != 0 {
            // SAFETY: an aligned load, which is atomic.
            unsafe { asm!("mov {seen:e}, [{lock}]", lock = in(reg) lock, seen = out(reg) seen) };
            turns += 1;
            if turns < 50 {
                spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

#[inline(never)]
fn leave() {
    let lock = &raw mut LOCK;
    // SAFETY: an aligned store, which is atomic and a release.
    unsafe { asm!("mov dword ptr [{lock}], 0", lock = in(reg) lock) };
}

#[inline(never)]
fn guarded_bump() {
    // SAFETY: this thread has the lock, except in the twin.
    unsafe {
        let balance = &raw mut BALANCE;
        *balance += 1;
    }
}

fn worker() {
    let guarded = black_box(!cfg!(twin));
    for _ in 0..100_000 {
        if guarded {
            enter();
        }
        guarded_bump();
        if guarded {
            leave();
        }
        for _ in 0..4 {
            spin_loop();
        }
    }
}

fn main() {
    let first = thread::spawn(worker);
    let second = thread::spawn(worker);
    first.join().unwrap();
    second.join().unwrap();
}
