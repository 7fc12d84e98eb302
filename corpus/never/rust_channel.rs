// Buffers handed through channels: whoever has received one owns it. The twin
// goes on using a buffer that it has already sent.
//@ build: O0 O2 O2+lines
//@ full: O3+lines O2+g1 O2+nodebug O2+stripped Os+lines
//@ focus: fill drain
//@ twin-expect: what=* region=heap functions=fill,drain
use std::hint::{black_box, spin_loop};
use std::sync::mpsc;
use std::thread;

const ROUNDS: u64 = 1_000;

/// A raw pointer, so that the twin can keep what it has given away.
#[derive(Clone, Copy)]
struct Buffer(*mut [u64; 8]);

// SAFETY: sent along a channel and not used by the sender afterwards, except in
// the twin.
unsafe impl Send for Buffer {}

#[inline(never)]
fn fill(buffer: Buffer, value: u64) {
    // SAFETY: received and not yet sent on, except in the twin.
    unsafe { (*buffer.0)[2] = value }
}

#[inline(never)]
fn drain(buffer: Buffer) -> u64 {
    // SAFETY: received and not yet sent on.
    unsafe { (*buffer.0)[2] }
}

fn pause() {
    for _ in 0..40 {
        spin_loop();
    }
}

fn main() {
    let (to_worker, jobs) = mpsc::channel::<Buffer>();
    let (to_owner, results) = mpsc::channel::<Buffer>();
    let worker = thread::spawn(move || {
        for job in jobs {
            for _ in 0..20 {
                black_box(drain(job));
                pause();
            }
            if to_owner.send(job).is_err() {
                break;
            }
        }
    });
    let mut buffer = Buffer(Box::into_raw(Box::new([0; 8])));
    for round in 0..ROUNDS {
        fill(buffer, round);
        to_worker.send(buffer).unwrap();
        if cfg!(twin) {
            for _ in 0..20 {
                fill(buffer, round + 1);
                pause();
            }
        }
        buffer = results.recv().unwrap();
    }
    drop(to_worker);
    worker.join().unwrap();
    // SAFETY: made by Box::into_raw above, and the worker has ended.
    drop(unsafe { Box::from_raw(buffer.0) });
}
