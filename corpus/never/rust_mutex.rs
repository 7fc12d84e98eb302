// A std::sync::Mutex around a counter. The twin reaches the counter without it.
//@ build: O0 O2
//@ full: O2+lines O3+lto+lines O2+g1 O2+nodebug O2+stripped Os
//@ focus: guarded_bump
//@ twin-expect: what=BALANCE functions=guarded_bump,guarded_bump
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Mutex;
use std::thread;

const ROUNDS: u32 = 200_000;

struct Balance(UnsafeCell<u64>);

// SAFETY: every access is made under LOCK, except in the twin.
unsafe impl Sync for Balance {}

static BALANCE: Balance = Balance(UnsafeCell::new(0));
static LOCK: Mutex<()> = Mutex::new(());

#[inline(never)]
fn guarded_bump() {
    let balance = BALANCE.0.get();
    // SAFETY: the caller holds LOCK, except in the twin.
    unsafe { *balance = (*balance).wrapping_add(1) }
}

fn worker() {
    for _ in 0..ROUNDS {
        let hold = (!cfg!(twin)).then(|| LOCK.lock().unwrap());
        guarded_bump();
        drop(hold);
        for _ in 0..8 {
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
