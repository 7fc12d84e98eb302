// What the library keeps the contents of an `Option` and of an `Arc` in is not named.
//@ build: O0 O2 O2+debugfile
//@ expect: what=* pointee=State.last functions=set_last,last
//@ expect: what=* pointee=Row.hits functions=set_hits,hits
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::thread;

const ROUNDS: u32 = 2_000_000;

pub struct Row {
    pub key: u64,
    pub hits: u64,
}

pub struct State {
    pub number: u64,
    pub last: Option<u64>,
    pub shared: Arc<Row>,
}

struct Shared(UnsafeCell<State>);

// SAFETY: not sound, which is the point.
unsafe impl Sync for Shared {}

#[inline(never)]
fn set_last(state: &mut State, number: u64) {
    state.last = Some(number);
}

#[inline(never)]
fn last(state: &State) -> u64 {
    match state.last {
        Some(number) => number,
        None => state.number,
    }
}

#[inline(never)]
fn set_hits(state: &mut State, number: u64) {
    // SAFETY: others have it, too, which is the point.
    unsafe { Arc::get_mut(&mut state.shared).unwrap_unchecked() }.hits = number;
}

#[inline(never)]
fn hits(state: &State) -> u64 {
    state.shared.hits
}

fn main() {
    let shared = Arc::new(Shared(UnsafeCell::new(State {
        number: 1,
        last: Some(2),
        shared: Arc::new(Row { key: 5, hits: 6 }),
    })));
    let other = Arc::clone(&shared);
    let writer = thread::spawn(move || {
        for round in 0..ROUNDS {
            // SAFETY: there is none; this is one side of the races.
            let state = unsafe { &mut *other.0.get() };
            set_last(state, u64::from(round));
            set_hits(state, u64::from(round));
            spin_loop();
        }
    });
    for _ in 0..ROUNDS {
        // SAFETY: there is none; this is the other side.
        let state = unsafe { &*shared.0.get() };
        black_box((last(state), hits(state)));
        spin_loop();
    }
    writer.join().unwrap();
    // SAFETY: the other thread has ended.
    let state = unsafe { &*shared.0.get() };
    black_box(state.shared.key);
}
