//! Writing a recording.

use crate::container::{self, Block, HEADER_SIZE, MAGIC, Placed};
use crate::notes::{Counts, Ending, Header};
use crate::wire::{ChunkKind, ENTRY_SIZE, LONGEST_CHUNK};
use serde::Serialize;
use std::io::{self, Write};

/// How hard zstd tries. The program waits for whoever packs, and entries are alike enough for
/// the fastest level.
const LEVEL: i32 = 1;

/// More blocks do not fit into an index.
const MOST_INDEXED: usize = container::LONGEST_INDEX / container::INDEXED_SIZE;

/// A recording that is being written.
///
/// Each chunk is packed and written at once, with one `write`. After a failure nothing more is
/// written, so that what is damaged is the end.
pub struct Writer<W: Write> {
    to: W,
    packer: zstd::bulk::Compressor<'static>,
    /// Header and packed contents of a block, kept for the next one.
    packed: Vec<u8>,
    written: u64,
    /// None once it would be too long to be written.
    index: Option<Vec<Placed>>,
    counts: Counts,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(to: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self {
            to,
            packer: zstd::bulk::Compressor::new(LEVEL)?,
            packed: Vec::new(),
            written: MAGIC.len() as u64,
            index: Some(Vec::new()),
            counts: Counts::default(),
            failed: false,
        };
        writer.to.write_all(&MAGIC)?;
        writer.note(container::HEADER, header)?;
        Ok(writer)
    }

    /// Adds a chunk. `process` stands for one process of the recording: any number that is not
    /// used again for another.
    ///
    /// # Errors
    /// When it cannot be written, and if an earlier one could not; when it is too long.
    pub fn append(
        &mut self,
        process: u32,
        kind: ChunkKind,
        thread: u32,
        bytes: &[u8],
    ) -> io::Result<()> {
        if bytes.len() > LONGEST_CHUNK as usize {
            let why = format!("a chunk of {} bytes is too long", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if kind == ChunkKind::Entries {
            // A reader holds a piece of each thread at a time.
            for piece in bytes.chunks(container::LONGEST_PIECE) {
                self.block(kind as u8, process, thread, piece)?;
            }
        } else {
            self.block(kind as u8, process, thread, bytes)?;
        }
        self.counts.chunks += 1;
        self.counts.unpacked += bytes.len() as u64;
        if kind == ChunkKind::Entries {
            self.counts.entries += (bytes.len() / ENTRY_SIZE) as u64;
        }
        Ok(())
    }

    /// How long the file is by now.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// What was added so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Ends the recording: how the program ended, and an index. The counts are filled in.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, ending: &Ending) -> io::Result<W> {
        let ending = Ending {
            counts: self.counts,
            ..ending.clone()
        };
        self.note(container::ENDING, &ending)?;
        let start = self.written;
        // What has too many blocks for an index is found block by block.
        if let Some(index) = self.index.take() {
            let index: Vec<u8> = index.iter().flat_map(|at| at.encode()).collect();
            self.block(container::INDEX, 0, 0, &index)?;
            self.to.write_all(&container::tail(start))?;
        }
        self.to.flush()?;
        Ok(self.to)
    }

    fn note(&mut self, kind: u8, what: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(what)?;
        self.block(kind, 0, 0, &bytes)
    }

    fn block(&mut self, kind: u8, process: u32, thread: u32, bytes: &[u8]) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier part could not be written"));
        }
        self.failed = true;
        let room = zstd::zstd_safe::compress_bound(bytes.len());
        self.packed.resize(HEADER_SIZE + room, 0);
        let contents = &mut self.packed[HEADER_SIZE..];
        let length = self.packer.compress_to_buffer(bytes, contents)?;
        self.packed.truncate(HEADER_SIZE + length);
        let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let block = Block {
            kind,
            process,
            thread,
            unpacked: u32::try_from(bytes.len()).map_err(too_long)?,
            packed: u32::try_from(length).map_err(too_long)?,
        };
        let header = block.encode(&self.packed[HEADER_SIZE..]);
        self.packed[..HEADER_SIZE].copy_from_slice(&header);
        self.to.write_all(&self.packed)?;
        // Foreign chunks may be as many as they are short.
        self.index = self.index.take().filter(|index| index.len() < MOST_INDEXED);
        if let Some(index) = &mut self.index {
            index.push(Placed {
                offset: self.written,
                block,
            });
        }
        self.written += self.packed.len() as u64;
        self.failed = false;
        Ok(())
    }
}
