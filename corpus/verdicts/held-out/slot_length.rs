// A length is read to index a buffer while another thread shortens it.
//@ race: what=LENGTH truth=harmful category=steers-access
//@ reason: the index is checked against one length and used with another
use std::hint::black_box;
use std::thread;

static mut LENGTH: usize = 64;
static mut BUFFER: [u8; 64] = [7; 64];

#[inline(never)]
unsafe fn last() -> u8 {
    unsafe {
        let length = (&raw const LENGTH).read();
        if length == 0 {
            return 0;
        }
        *(&raw const BUFFER).cast::<u8>().add(length - 1)
    }
}

#[inline(never)]
unsafe fn resize(length: usize) {
    unsafe { (&raw mut LENGTH).write(length) }
}

fn main() {
    let reader = thread::spawn(|| {
        for _ in 0..400_000 {
            black_box(unsafe { last() });
            for _ in 0..4 {
                std::hint::spin_loop();
            }
        }
    });
    let writer = thread::spawn(|| {
        for i in 0..400_000usize {
            unsafe { resize(i % 64) };
            for _ in 0..4 {
                std::hint::spin_loop();
            }
        }
    });
    reader.join().unwrap();
    writer.join().unwrap();
}
