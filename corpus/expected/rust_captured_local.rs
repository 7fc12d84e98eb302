// Two threads of a scope get the address of a local variable and both update it, while the
// function that owns it reads it.
//@ build: O0 O2
//@ full: O2+lines O3
//@ expect: what=* region=stack functions=add_to,add_to
use std::hint::spin_loop;
use std::thread;

#[derive(Clone, Copy)]
struct Lent(*mut u64);

// SAFETY: there is none; that is the bug.
unsafe impl Send for Lent {}

impl Lent {
    #[inline(never)]
    fn add_to(self) {
        // SAFETY: there is none; this is both sides of the race.
        unsafe { *self.0 += 1 }
    }
}

fn main() {
    let mut total = 0_u64;
    let lent = Lent(&raw mut total);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                // Long enough that the runtime's start is a small part of it.
                for _ in 0..30_000_000 {
                    lent.add_to();
                    spin_loop();
                }
            });
        }
    });
    assert!(total > 0);
}
