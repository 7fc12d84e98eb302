// Left-right: readers read the one copy while the writer changes the other, then the writer turns them
// around and waits until nobody is left on the old side. The copies are plain; only indicators are atomic.
//@ build: O2
//@ full: O0 O2+lines O2+nodebug O2+stripped O3 O2+dwarf4 Os
//@ focus: look change
//@ twin-expect: what=COPIES functions=change,look
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

#[derive(Clone, Copy)]
struct Table {
    sum: u64,
    parts: [u32; 6],
}

struct Copies(UnsafeCell<[Table; 2]>);
// SAFETY: the indicators order all accesses, but for the twin, which is wrong on purpose.
unsafe impl Sync for Copies {}

static COPIES: Copies = Copies(UnsafeCell::new([Table { sum: 0, parts: [0; 6] }; 2]));
static SIDE: AtomicUsize = AtomicUsize::new(0);
static VERSION: AtomicUsize = AtomicUsize::new(0);
static READERS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static DONE: AtomicBool = AtomicBool::new(false);

fn copy(side: usize) -> *mut Table {
    COPIES.0.get().cast::<Table>().wrapping_add(side)
}

#[inline(never)]
fn look(table: *const Table) -> u64 {
    // SAFETY: nobody changes this side while we are counted.
    let table = unsafe { &*table };
    table.sum - table.parts.iter().map(|&part| u64::from(part)).sum::<u64>()
}

#[inline(never)]
fn change(table: *mut Table, i: u32) {
    // SAFETY: nobody reads this side.
    let table = unsafe { &mut *table };
    table.parts[i as usize % 6] += 1;
    table.sum += 1;
}

fn read() -> u64 {
    if cfg!(twin) {
        return black_box(look(copy(0)).min(1));
    }
    let version = VERSION.load(SeqCst);
    READERS[version].fetch_add(1, SeqCst);
    let difference = look(copy(SIDE.load(SeqCst)));
    READERS[version].fetch_sub(1, SeqCst);
    difference
}

fn wait_for(version: usize) {
    while READERS[version].load(SeqCst) != 0 {
        thread::yield_now();
    }
}

fn write(i: u32) {
    if cfg!(twin) {
        change(copy(0), i);
        return;
    }
    let side = SIDE.load(SeqCst);
    change(copy(1 - side), i);
    SIDE.store(1 - side, SeqCst);
    let version = VERSION.load(SeqCst);
    wait_for(1 - version);
    VERSION.store(1 - version, SeqCst);
    wait_for(version);
    change(copy(side), i);
}

fn main() {
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..if cfg!(twin) { 400_000 } else { 60_000 } {
                write(i);
            }
            DONE.store(true, SeqCst);
        });
        scope.spawn(|| {
            while !DONE.load(SeqCst) {
                let difference = black_box(read());
                assert!(cfg!(twin) || difference == 0);
            }
        });
    });
}
