// A static that is counted up.
//@ race: what=HITS truth=benign category=statistics-counter
//@ reason: a number for a log line
use std::hint::spin_loop;
use std::thread;

static mut HITS: u64 = 0;

#[inline(never)]
fn hit() {
    unsafe {
        let hits = &raw mut HITS;
        *hits += 1;
    }
}

fn work() {
    for _ in 0..400_000 {
        hit();
        for _ in 0..4 {
            spin_loop();
        }
    }
}

fn main() {
    let threads = [thread::spawn(work), thread::spawn(work)];
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{}", unsafe { (&raw const HITS).read() });
}
