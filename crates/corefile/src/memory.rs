//! Copies the process's memory to the file, piece by piece.

use super::CoreProcess;
use super::layout::PAGE;
use super::mappings::Mapping;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const PAGE_BYTES: usize = PAGE as usize;

/// How many pages are read together.
const PIECE: usize = 256;

/// The bits of an entry in `/proc/PID/pagemap` that say that the page exists: present
/// and swapped.
const EXISTS: u64 = 3 << 62;

/// Reads the process's memory.
pub struct ProcessMemory<'a> {
    process: &'a CoreProcess<'a>,
    /// Tells which pages exist. Without it all are read.
    pages: Option<File>,
    buffer: Vec<u8>,
}

impl<'a> ProcessMemory<'a> {
    pub fn new(process: &'a CoreProcess<'a>, tid: i32) -> Self {
        Self {
            process,
            pages: File::open(format!("/proc/{tid}/pagemap")).ok(),
            buffer: vec![0; PIECE * PAGE_BYTES],
        }
    }

    /// Writes the stored part of `mapping` to `file` at `offset`, without pages of
    /// zeros. Returns the number of bytes written.
    pub fn copy(&mut self, mapping: &Mapping, file: &File, offset: u64) -> io::Result<u64> {
        let stored = mapping.stored();
        let mut written = 0;
        let mut start = stored.start;
        while start < stored.end {
            let end = stored.end.min(start + PIECE as u64 * PAGE);
            for pages in self.existing(start..end, mapping.untouched_is_zero()) {
                let size = usize::try_from(pages.end - pages.start).unwrap_or(0);
                let buffer = &mut self.buffer[..size];
                fill(self.process.memory, pages.start, buffer)?;
                (self.process.hide)(pages.start, buffer);
                written += write_runs(buffer, file, offset + (pages.start - stored.start))?;
            }
            start = end;
        }
        Ok(written)
    }

    /// The ranges of `range` that are worth reading.
    fn existing(&self, range: Range<u64>, untouched_is_zero: bool) -> Vec<Range<u64>> {
        let Some(pages) = self.pages.as_ref().filter(|_| untouched_is_zero) else {
            return vec![range];
        };
        let mut entries = [0; PIECE * 8];
        let count = usize::try_from((range.end - range.start) / PAGE).unwrap_or(0);
        let entries = &mut entries[..count * 8];
        if pages
            .read_exact_at(entries, range.start / PAGE * 8)
            .is_err()
        {
            return vec![range];
        }
        let mut found: Vec<Range<u64>> = Vec::new();
        for (number, entry) in (0u64..).zip(entries.as_chunks().0) {
            if u64::from_le_bytes(*entry) & EXISTS == 0 {
                continue;
            }
            let start = range.start + number * PAGE;
            match found.last_mut() {
                Some(last) if last.end == start => last.end += PAGE,
                _ => found.push(start..start + PAGE),
            }
        }
        found
    }
}

/// Reads `buffer` from `address`. A page that cannot be read, because it is beyond the
/// end of its file or was unmapped, becomes zeros.
fn fill(memory: &File, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match memory.read_at(&mut buffer[done..], address + done as u64) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the process ended",
                ));
            }
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EFAULT)) => {
                let next = (done + 1).next_multiple_of(PAGE_BYTES).min(buffer.len());
                buffer[done..next].fill(0);
                done = next;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes the pages of `buffer` that are not all zeros, adjacent ones together.
fn write_runs(buffer: &[u8], file: &File, offset: u64) -> io::Result<u64> {
    const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
    let mut written = 0;
    let mut run = 0..0;
    for start in (0..=buffer.len()).step_by(PAGE_BYTES) {
        let page = &buffer[start..buffer.len().min(start + PAGE_BYTES)];
        if page == &ZEROS[..page.len()] {
            if !run.is_empty() {
                file.write_all_at(&buffer[run.clone()], offset + run.start as u64)?;
                written += run.len() as u64;
            }
            run = start + page.len()..start + page.len();
        } else {
            run.end = start + page.len();
        }
    }
    Ok(written)
}
