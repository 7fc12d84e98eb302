//! The pipes that recorded processes write to, and what they share.

use crate::chunks::{Chunk, Next, next};
use redhanded_recording::wire::{ChunkKind, MOST_PROCESSES};
use redhanded_sys::{Pipe, wait_readable};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many pipes there are for processes that do not exist yet. One that finds none waits.
const AHEAD: u64 = 8;
/// No more are made: a reader of the recording takes no more processes.
const MOST: u64 = MOST_PROCESSES as u64;
/// How much is read at a time.
const AT_ONCE: usize = 1 << 20;
/// How long the page is that the processes share. `struct shared` in recorder/recorder.h.
const SHARED_SIZE: u64 = 4096;
const TAKEN: u64 = 64;
const STOP: u64 = 128;
const REFUSED: u64 = 136;

/// The streams of a recording.
pub struct Streams {
    folder: PathBuf,
    shared: File,
    open: Vec<Stream>,
    made: u64,
    buffer: Vec<u8>,
    /// Processes whose stream could not be understood.
    damaged: u32,
    greeted: u32,
}

/// What one process writes.
struct Stream {
    /// Its number in the recording.
    process: u32,
    pipe: Pipe,
    /// The beginning of a chunk whose end has not come.
    begun: Vec<u8>,
    /// Whether it began as it must.
    greeted: bool,
}

/// What came of looking at the streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// Something was read.
    Something,
    /// Nothing came in time.
    Nothing,
}

impl Streams {
    /// Makes what the processes need, in a private folder.
    pub fn make(folder: &Path) -> io::Result<Self> {
        let shared = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.join("shared"))?;
        shared.set_len(SHARED_SIZE)?;
        let mut streams = Self {
            folder: folder.to_owned(),
            shared,
            open: Vec::new(),
            made: 0,
            buffer: vec![0; AT_ONCE],
            damaged: 0,
            greeted: 0,
        };
        streams.make_more()?;
        Ok(streams)
    }

    /// Makes pipes for processes to come.
    fn make_more(&mut self) -> io::Result<()> {
        let taken = self.word(TAKEN)?;
        // The program can write there too, so the number may be anything.
        let wanted = taken.saturating_add(AHEAD).min(self.made + 64).min(MOST);
        while self.made < wanted {
            let path = self.folder.join(format!("stream.{}", self.made));
            match Pipe::make(&path) {
                Ok(pipe) => self.open.push(Stream {
                    process: self.made as u32,
                    pipe,
                    begun: Vec::new(),
                    greeted: false,
                }),
                // There may be room again when a process has ended. One that waits in vain until
                // then counts itself as not recorded.
                Err(_) if self.made >= AHEAD => {
                    let _ = std::fs::remove_file(&path);
                    break;
                }
                Err(error) => return Err(error),
            }
            self.made += 1;
        }
        Ok(())
    }

    fn word(&self, at: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.shared.read_exact_at(&mut word, at)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Tells all processes to record nothing more.
    pub fn stop(&self) -> io::Result<()> {
        self.shared.write_all_at(&1u64.to_le_bytes(), STOP)
    }

    /// How many processes are recorded.
    pub const fn greeted(&self) -> u32 {
        self.greeted
    }

    /// How many processes said that they cannot be recorded.
    pub fn refused(&self) -> u64 {
        self.word(REFUSED).unwrap_or(0)
    }

    /// How many streams could not be understood.
    pub const fn damaged(&self) -> u32 {
        self.damaged
    }

    /// Reads what has come, or comes before `timeout`, and hands on each whole chunk with the
    /// number of its process.
    pub fn read(
        &mut self,
        timeout: Duration,
        mut take: impl FnMut(u32, Chunk<'_>),
    ) -> io::Result<Came> {
        self.make_more()?;
        let files: Vec<_> = self.open.iter().map(|s| s.pipe.file().as_fd()).collect();
        let ready = wait_readable(&files, timeout)?;
        if !ready.contains(&true) {
            return Ok(Came::Nothing);
        }
        let mut ready = ready.into_iter();
        let (buffer, damaged, greeted) = (&mut self.buffer, &mut self.damaged, &mut self.greeted);
        self.open.retain_mut(|stream| {
            if ready.next() != Some(true) {
                return true;
            }
            match stream.pipe.file().read(buffer) {
                Ok(0) => false,
                Ok(length) => match stream.take(&buffer[..length], &mut take) {
                    Some(new) => {
                        *greeted += u32::from(new);
                        true
                    }
                    None => {
                        *damaged += 1;
                        false
                    }
                },
                Err(error) => matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ),
            }
        });
        Ok(Came::Something)
    }
}

impl Stream {
    /// Hands on the whole chunks. Whether the process has just greeted; none if it does not
    /// speak as it must.
    fn take(&mut self, bytes: &[u8], mut hand_on: impl FnMut(u32, Chunk<'_>)) -> Option<bool> {
        let before = self.greeted;
        self.begun.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            match next(&self.begun[at..]) {
                Next::Part => break,
                Next::Nonsense => return None,
                Next::Chunk(chunk, length) => {
                    self.greeted |= chunk.kind == ChunkKind::Hello;
                    if !self.greeted {
                        return None;
                    }
                    hand_on(self.process, chunk);
                    at += length;
                }
            }
        }
        self.begun.drain(..at);
        Some(self.greeted && !before)
    }
}
