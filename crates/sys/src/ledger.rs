//! A list in memory that two processes share and that outlives either.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Address space that is reserved, not memory that is used: room for four million
/// entries. Not more, because limits on address space count it all the same.
const SIZE: usize = 64 << 20;
/// Words before the first entry: the length, and the flags.
const HEAD: usize = 2;

/// A list that only grows, made before the process splits. What one side has
/// appended the other can read, also after its death.
#[derive(Clone, Copy, Debug)]
pub struct Ledger(&'static [AtomicU64]);

impl Ledger {
    /// An empty one. It stays until the process ends.
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

    /// Appends an entry; whether there was room.
    #[must_use]
    pub fn append(self, entry: [u64; 2]) -> bool {
        let len = self.0[0].load(Ordering::Relaxed);
        let at = HEAD + 2 * len as usize;
        let Some(words) = self.0.get(at..at + 2) else {
            return false;
        };
        for (word, value) in words.iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }
        self.0[0].store(len + 1, Ordering::Release);
        true
    }

    /// All entries.
    pub fn entries(self) -> impl Iterator<Item = [u64; 2]> {
        let len = self.0[0].load(Ordering::Acquire) as usize;
        (0..len).map(move |entry| {
            let word = |offset: usize| self.0[HEAD + 2 * entry + offset].load(Ordering::Relaxed);
            [word(0), word(1)]
        })
    }

    /// Flags that both sides may read and set.
    pub fn flags(self) -> &'static AtomicU64 {
        &self.0[1]
    }
}
