// What a `Mutex` guards, reached around it, has the name of the field that is the `Mutex`.
//@ build: O2 O2+debugfile
//@ expect: what=* pointee=State.guarded.sum functions=set_sum,sum
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::{Arc, Mutex};
use std::thread;

const ROUNDS: u32 = 2_000_000;

pub struct Totals {
    pub count: u64,
    pub sum: u64,
}

pub struct State {
    pub number: u64,
    pub guarded: Mutex<Totals>,
}

struct Shared(UnsafeCell<State>);

// SAFETY: not sound, which is the point.
unsafe impl Sync for Shared {}

#[inline(never)]
fn set_sum(state: &mut State, number: u64) {
    state.guarded.get_mut().unwrap().sum = number;
}

#[inline(never)]
fn sum(state: &mut State) -> u64 {
    state.guarded.get_mut().unwrap().sum
}

fn main() {
    let shared = Arc::new(Shared(UnsafeCell::new(State {
        number: 1,
        guarded: Mutex::new(Totals { count: 2, sum: 3 }),
    })));
    let other = Arc::clone(&shared);
    let writer = thread::spawn(move || {
        for round in 0..ROUNDS {
            // SAFETY: there is none; this is one side of the race.
            set_sum(unsafe { &mut *other.0.get() }, u64::from(round));
            spin_loop();
        }
    });
    for _ in 0..ROUNDS {
        // SAFETY: there is none; this is the other side.
        black_box(sum(unsafe { &mut *shared.0.get() }));
        spin_loop();
    }
    writer.join().unwrap();
    // SAFETY: the other thread has ended.
    let state = unsafe { &mut *shared.0.get() };
    black_box(state.number + state.guarded.get_mut().unwrap().count);
}
