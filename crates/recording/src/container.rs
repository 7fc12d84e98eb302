//! The file: blocks one after the other, each packed by itself.
//!
//! A file begins with [`MAGIC`]. A block has a header of [`HEADER_SIZE`] bytes and its packed
//! contents. The first block is the header of the recording. Then come the recorder's chunks as
//! they arrived, then the ending, the index, and a tail that says where the index is. A file that
//! was cut anywhere lacks the last of these, and is read block by block up to where it is damaged.

use crate::wire::LONGEST_CHUNK;

/// What a recording begins with; it has the version of the format.
pub const MAGIC: [u8; 16] = *b"redhanded-rec/1\n";

/// What is the same for all versions.
pub const MAGIC_OF_ALL_VERSIONS: usize = b"redhanded-rec/".len();

/// Whether a file that begins with these bytes is a recording, of whatever version.
#[must_use]
pub fn is_recording(start: &[u8]) -> bool {
    start.starts_with(&MAGIC[..MAGIC_OF_ALL_VERSIONS])
}

/// What a block begins with.
const BLOCK: [u8; 4] = *b"RHBK";

/// What the tail begins with.
const TAIL: [u8; 4] = *b"RHTL";

/// How long a block's header is.
pub const HEADER_SIZE: usize = 28;

/// How long the tail is: its mark, a checksum, and where the index begins.
pub const TAIL_SIZE: usize = 16;

/// How long an entry of the index is.
pub const INDEXED_SIZE: usize = 28;

/// Kinds of blocks that are no chunks of the recorder.
pub const HEADER: u8 = 0x80;
/// The ending of a recording.
pub const ENDING: u8 = 0x81;
/// The index.
pub const INDEX: u8 = 0x82;

/// Entries are kept in pieces of at most this many bytes, whole entries each.
pub const LONGEST_PIECE: usize = 128 << 10;

/// An index that would be longer is left out.
pub const LONGEST_INDEX: usize = 64 << 20;

/// The header of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// The number of its [`ChunkKind`](crate::wire::ChunkKind), or one of the kinds above.
    pub kind: u8,
    /// Which process of the recording it is about.
    pub process: u32,
    /// Which of its threads.
    pub thread: u32,
    /// How long its contents are.
    pub unpacked: u32,
    /// How long they are in the file.
    pub packed: u32,
}

impl Block {
    /// The fields in the order in which headers and the index have them.
    fn fields(self) -> [u32; 5] {
        [
            u32::from(self.kind),
            self.process,
            self.thread,
            self.unpacked,
            self.packed,
        ]
    }

    fn of_fields(fields: [u32; 5]) -> Option<Self> {
        let [kind, process, thread, unpacked, packed] = fields;
        let kind = u8::try_from(kind).ok()?;
        let longest = match kind {
            INDEX => LONGEST_INDEX as u32,
            _ => LONGEST_CHUNK,
        };
        // zstd grows what it cannot pack, by less than this.
        let fits = unpacked <= longest && packed <= longest + (longest >> 7) + 1024;
        fits.then_some(Self {
            kind,
            process,
            thread,
            unpacked,
            packed,
        })
    }

    /// The header's bytes, for these packed contents.
    pub fn encode(self, contents: &[u8]) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..4].copy_from_slice(&BLOCK);
        put(&mut bytes[8..], &self.fields());
        let sum = checksum(&bytes[8..], contents);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header in these bytes, and the checksum that it has.
    pub fn decode(bytes: &[u8; HEADER_SIZE]) -> Option<(Self, u32)> {
        let sum = word(bytes, 4)?;
        let block = Self::of_fields(take(&bytes[8..])?)?;
        (bytes[..4] == BLOCK).then_some((block, sum))
    }

    /// Whether this is the checksum of the block.
    pub fn is_intact(self, contents: &[u8], sum: u32) -> bool {
        let mut bytes = [0; HEADER_SIZE - 8];
        put(&mut bytes, &self.fields());
        checksum(&bytes, contents) == sum
    }
}

/// Where a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The offset of its header in the file.
    pub offset: u64,
    /// What it is.
    pub block: Block,
}

impl Placed {
    /// The offset behind it.
    pub fn end(self) -> u64 {
        (self.offset).saturating_add(HEADER_SIZE as u64 + u64::from(self.block.packed))
    }

    /// Its entry in the index.
    pub fn encode(self) -> [u8; INDEXED_SIZE] {
        let mut bytes = [0; INDEXED_SIZE];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        put(&mut bytes[8..], &self.block.fields());
        bytes
    }

    /// What an entry of the index says.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            offset: u64::from_le_bytes(bytes.first_chunk().copied()?),
            block: Block::of_fields(take(bytes.get(8..)?)?)?,
        })
    }
}

/// The tail of a file whose index begins here.
pub fn tail(index: u64) -> [u8; TAIL_SIZE] {
    let mut bytes = [0; TAIL_SIZE];
    bytes[..4].copy_from_slice(&TAIL);
    bytes[8..].copy_from_slice(&index.to_le_bytes());
    let sum = checksum(&bytes[8..], &[]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Where the index begins, by a tail.
pub fn index_of(bytes: &[u8; TAIL_SIZE]) -> Option<u64> {
    let index = u64::from_le_bytes(bytes[8..].first_chunk().copied()?);
    (*bytes == tail(index)).then_some(index)
}

fn checksum(first: &[u8], second: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(first);
    sum.update(second);
    sum.finalize()
}

fn put(bytes: &mut [u8], fields: &[u32; 5]) {
    for (to, field) in bytes.chunks_exact_mut(4).zip(fields) {
        to.copy_from_slice(&field.to_le_bytes());
    }
}

fn take(bytes: &[u8]) -> Option<[u32; 5]> {
    let mut fields = [0; 5];
    for (index, field) in fields.iter_mut().enumerate() {
        *field = word(bytes, index * 4)?;
    }
    Some(fields)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
