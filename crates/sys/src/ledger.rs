//! A list in memory that two processes share and that outlives either.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reserved address space, most of which is never used: room for twice two million
/// entries. It is not larger, because limits on address space count it all.
const SIZE: usize = 64 << 20;
/// The words before the first entry: the flags, the signs of life, the writer, the half
/// in use, and the length of each.
const HEAD: usize = 6;
const FLAGS: usize = 0;
const BEATS: usize = 1;
const WRITER: usize = 2;
const IN_USE: usize = 3;
const LENGTHS: usize = 4;
/// How many entries each half can hold.
const MOST: usize = (SIZE / 8 - HEAD) / 4;

/// The ledger of this process, if it writes one.
static OWN: OnceLock<Ledger> = OnceLock::new();

/// Shows that this process is alive, if somebody looks after it. To be called by whatever may
/// take longer than a second.
pub fn beat() {
    if let Some(ledger) = OWN.get() {
        ledger.beats().fetch_add(1, Ordering::Relaxed);
    }
}

/// A list of entries, made before the process splits. What one process has written the
/// other can read, even after the writer's death.
///
/// There are two halves, of which one is in use. A full list is replaced by a shorter
/// one in the other half, in a single step, so that a reader always finds a complete
/// list even if the writer died while it wrote.
#[derive(Clone, Copy, Debug)]
pub struct Ledger(&'static [AtomicU64]);

impl Ledger {
    /// An empty list. It stays until the process ends.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a fresh mapping without an address asked for overlaps nothing.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is of this size, page-aligned, zero-filled, and is
        // never unmapped; atomics may be shared between processes.
        let words = unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), SIZE / 8) };
        Ok(Self(words))
    }

    fn half(self) -> usize {
        self.0[IN_USE].load(Ordering::Acquire) as usize & 1
    }

    fn words(self, half: usize, entry: usize) -> &'static [AtomicU64] {
        let at = HEAD + 2 * (half * MOST + entry);
        &self.0[at..at + 2]
    }

    fn write(self, half: usize, entry: usize, values: [u64; 2]) {
        for (word, value) in self.words(half, entry).iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        self.0[LENGTHS + half].store(entry as u64 + 1, Ordering::Release);
    }

    /// Appends an entry. Returns whether there was room.
    #[must_use]
    pub fn append(self, entry: [u64; 2]) -> bool {
        let half = self.half();
        let len = self.0[LENGTHS + half].load(Ordering::Relaxed) as usize;
        let has_room = len < MOST;
        if has_room {
            self.write(half, len, entry);
        }
        has_room
    }

    /// Replaces all entries by these in one step, as far as there is room.
    pub fn replace(self, entries: impl Iterator<Item = [u64; 2]>) {
        let other = 1 - self.half();
        self.0[LENGTHS + other].store(0, Ordering::Relaxed);
        for (at, entry) in entries.take(MOST).enumerate() {
            self.write(other, at, entry);
        }
        self.0[IN_USE].store(other as u64, Ordering::Release);
    }

    /// All entries.
    pub fn entries(self) -> impl Iterator<Item = [u64; 2]> {
        let half = self.half();
        let len = self.0[LENGTHS + half].load(Ordering::Acquire) as usize;
        (0..len).map(move |entry| {
            let words = self.words(half, entry);
            [0, 1].map(|word| words[word].load(Ordering::Relaxed))
        })
    }

    /// How many more entries there is room for.
    #[must_use]
    pub fn room(self) -> usize {
        MOST - self.0[LENGTHS + self.half()].load(Ordering::Acquire) as usize
    }

    /// From now on [`beat`] counts for this process, which writes. It is looked after from its
    /// first beat on.
    pub fn begin(self) {
        let own = u64::from(std::process::id());
        self.writer().store(own, Ordering::Release);
        let _ = OWN.set(self);
    }

    /// How often the writer has shown that it is alive.
    pub fn beats(self) -> &'static AtomicU64 {
        &self.0[BEATS]
    }

    /// The process that writes, or 0 if there is none yet.
    pub fn writer(self) -> &'static AtomicU64 {
        &self.0[WRITER]
    }

    /// Flags that both processes may read and set.
    pub fn flags(self) -> &'static AtomicU64 {
        &self.0[FLAGS]
    }
}
