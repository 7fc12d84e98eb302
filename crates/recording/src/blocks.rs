//! Finding the blocks of a file, by its index or one after the other, and unpacking one.

use crate::container::{
    self, Block, HEADER_SIZE, INDEX, INDEXED_SIZE, LONGEST_PIECE, MAGIC, MAGIC_OF_ALL_VERSIONS,
    Placed, TAIL_SIZE,
};
use crate::reader::RecordingError;
use crate::wire::{ChunkKind, ENTRY_SIZE};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// A recording has no more blocks; as many entries of the index would be held.
const MOST_BLOCKS: usize = 4 << 20;

/// Where the bytes of a recording come from.
pub trait Source {
    /// Fills `bytes` from this offset.
    ///
    /// # Errors
    /// When they are not there.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// How many bytes there are.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn length(&self) -> io::Result<u64>;

    /// The user and the group that it belongs to, if it is a file.
    fn owner(&self) -> Option<(u32, u32)> {
        None
    }
}

impl Source for File {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn owner(&self) -> Option<(u32, u32)> {
        let about = self.metadata().ok()?;
        Some((about.uid(), about.gid()))
    }
}

impl Source for Vec<u8> {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = self.get(start..).and_then(|rest| rest.get(..bytes.len()));
        let part = part.ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(part);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// The blocks of a file in their order.
pub struct Blocks {
    pub placed: Vec<Placed>,
}

impl Blocks {
    /// Finds them. If the file is cut short or damaged, these are the blocks before that, and
    /// what is wrong.
    pub fn find(
        source: &dyn Source,
        path: &Path,
    ) -> Result<(Self, Option<String>), RecordingError> {
        let failed = |source| RecordingError::Read {
            path: path.to_owned(),
            source,
        };
        let length = source.length().map_err(failed)?;
        let mut magic = [0; MAGIC.len()];
        if length < MAGIC.len() as u64 {
            return Err(RecordingError::NotARecording(path.to_owned()));
        }
        source.read_at(0, &mut magic).map_err(failed)?;
        if magic[..MAGIC_OF_ALL_VERSIONS] != MAGIC[..MAGIC_OF_ALL_VERSIONS] {
            return Err(RecordingError::NotARecording(path.to_owned()));
        }
        if magic != MAGIC {
            return Err(RecordingError::Version(path.to_owned()));
        }
        if let Some(placed) = by_index(source, length) {
            return Ok((Self { placed }, None));
        }
        let (placed, why) = one_by_one(source, length);
        Ok((Self { placed }, why))
    }
}

/// The blocks by the index, if there is one and it is sound: they follow one another without a
/// gap, from the beginning of the file to the index.
fn by_index(source: &dyn Source, length: u64) -> Option<Vec<Placed>> {
    let mut tail = [0; TAIL_SIZE];
    let tail_at = length.checked_sub(TAIL_SIZE as u64)?;
    source.read_at(tail_at, &mut tail).ok()?;
    let start = container::index_of(&tail)?;
    let index = header_at(source, start)?;
    if index.block.kind != INDEX || index.end() != tail_at {
        return None;
    }
    let mut contents = Vec::new();
    unpack(source, index, &mut contents).ok()?;
    let entries = contents.chunks_exact(INDEXED_SIZE);
    if entries.len() > MOST_BLOCKS || !entries.remainder().is_empty() {
        return None;
    }
    let mut next = MAGIC.len() as u64;
    let mut placed = Vec::with_capacity(entries.len());
    for entry in entries {
        let entry = Placed::decode(entry)?;
        if entry.offset != next {
            return None;
        }
        next = entry.end();
        placed.push(entry);
    }
    (next == start).then_some(placed)
}

/// The blocks up to the end of the file, or to the first that is not whole.
fn one_by_one(source: &dyn Source, length: u64) -> (Vec<Placed>, Option<String>) {
    let mut placed = Vec::new();
    let mut at = MAGIC.len() as u64;
    while at < length {
        let Some(block) = header_at(source, at).filter(|block| block.end() <= length) else {
            return (
                placed,
                Some(format!("it is cut off or damaged at offset {at}")),
            );
        };
        if block.block.kind == INDEX {
            break;
        }
        if placed.len() == MOST_BLOCKS {
            return (
                placed,
                Some(format!("it has more than {MOST_BLOCKS} blocks")),
            );
        }
        at = block.end();
        placed.push(block);
    }
    (placed, None)
}

fn header_at(source: &dyn Source, offset: u64) -> Option<Placed> {
    let mut header = [0; HEADER_SIZE];
    source.read_at(offset, &mut header).ok()?;
    let (block, _) = Block::decode(&header)?;
    Some(Placed { offset, block })
}

/// Unpacks a block, or says what is wrong with it.
pub fn unpack(source: &dyn Source, placed: Placed, contents: &mut Vec<u8>) -> Result<(), String> {
    let Placed { offset, block } = placed;
    let damaged = || format!("it is damaged at offset {offset}");
    let unpacked = block.unpacked as usize;
    if ChunkKind::new(block.kind) == Some(ChunkKind::Entries)
        && (unpacked > LONGEST_PIECE || !unpacked.is_multiple_of(ENTRY_SIZE))
    {
        return Err(damaged());
    }
    let mut packed = vec![0; HEADER_SIZE + block.packed as usize];
    source
        .read_at(offset, &mut packed)
        .map_err(|why| format!("it cannot be read at offset {offset}: {why}"))?;
    let (header, packed) = packed.split_first_chunk().ok_or_else(damaged)?;
    let (found, sum) = Block::decode(header).ok_or_else(damaged)?;
    if found != block || !block.is_intact(packed, sum) {
        return Err(damaged());
    }
    contents.clear();
    contents.resize(unpacked, 0);
    let length = zstd::bulk::decompress_to_buffer(packed, contents).map_err(|_| damaged())?;
    if length != unpacked {
        return Err(damaged());
    }
    Ok(())
}
