// Bounded and unbounded channels of the standard library hand plain values over, whose
// inlined code lacks its paths in a build with line tables only.
//@ build: O2+lines O2
//@ full: O0 O3+lines Os+lines O2+g1 O2+nodebug
//@ focus: send_one receive_one fill look
//@ twin-expect: what=ONLY functions=fill,look
use std::hint::{black_box, spin_loop};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

static mut ONLY: [u64; 2] = [0; 2];

#[inline(never)]
fn fill(value: &mut [u64; 2], with: u64) {
    value[1] = with;
}

#[inline(never)]
fn look(value: &[u64; 2]) -> u64 {
    // The load must not move to the caller.
    black_box(value)[1]
}

#[inline(never)]
fn send_one(to: &SyncSender<Box<[u64; 2]>>, back: &Receiver<u64>, with: u64) -> bool {
    let mut value = Box::new([0; 2]);
    fill(&mut value, with);
    to.send(value).is_ok() && (with % 4 != 3 || back.recv().is_ok())
}

#[inline(never)]
fn receive_one(from: &Receiver<Box<[u64; 2]>>, back: &Sender<u64>) -> bool {
    let Ok(value) = from.recv() else { return false };
    let seen = look(&value);
    seen % 4 != 3 || back.send(seen).is_ok()
}

// What the twin does without a channel.
fn race(step: fn()) {
    for _ in 0..if cfg!(twin) { 400_000 } else { 0 } {
        step();
        for _ in 0..4 {
            spin_loop();
        }
    }
}

fn fill_only() {
    // SAFETY: there is none; this is one side of the race.
    fill(unsafe { &mut *(&raw mut ONLY) }, 7);
}

fn look_at_only() {
    // SAFETY: there is none; this is the other side.
    black_box(look(unsafe { &*(&raw const ONLY) }));
}

fn main() {
    black_box(&raw const ONLY);
    let (to, from) = sync_channel(4);
    let (back, answers) = channel();
    let sender = thread::spawn(move || {
        race(fill_only);
        for round in 0..40_000 {
            if !send_one(&to, &answers, round) {
                break;
            }
            spin_loop();
        }
    });
    let receiver = thread::spawn(move || {
        race(look_at_only);
        while receive_one(&from, &back) {}
    });
    sender.join().unwrap();
    receiver.join().unwrap();
}
