//! A stream's bytes become chunks.

use redhanded_recording::wire::{CHUNK_HEADER_SIZE, CHUNK_MAGIC, ChunkKind, LONGEST_CHUNK};

/// A chunk of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'b> {
    /// What it holds.
    pub kind: ChunkKind,
    /// The thread that it is about.
    pub thread: u32,
    /// Its contents.
    pub bytes: &'b [u8],
}

/// What follows in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<'b> {
    /// A chunk, and how many bytes it takes in the stream.
    Chunk(Chunk<'b>, usize),
    /// Not all of a chunk has come yet.
    Part,
    /// No chunk begins here. Nothing after it can be understood either.
    Nonsense,
}

/// The first chunk in `bytes`.
pub fn next(bytes: &[u8]) -> Next<'_> {
    let Some(header) = bytes.first_chunk::<CHUNK_HEADER_SIZE>() else {
        return Next::Part;
    };
    let word = |at: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&header[at..at + 4]);
        u32::from_le_bytes(word)
    };
    let (thread, length) = (word(8), word(12));
    let Some(kind) = ChunkKind::new(header[4]) else {
        return Next::Nonsense;
    };
    if header[..4] != CHUNK_MAGIC || header[5..8] != [0; 3] || length > LONGEST_CHUNK {
        return Next::Nonsense;
    }
    let end = CHUNK_HEADER_SIZE + length as usize;
    match bytes.get(CHUNK_HEADER_SIZE..end) {
        Some(bytes) => Next::Chunk(
            Chunk {
                kind,
                thread,
                bytes,
            },
            end,
        ),
        None => Next::Part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(kind: u8, thread: u32, bytes: &[u8]) -> Vec<u8> {
        let mut chunk = CHUNK_MAGIC.to_vec();
        chunk.extend([kind, 0, 0, 0]);
        chunk.extend(thread.to_le_bytes());
        chunk.extend((bytes.len() as u32).to_le_bytes());
        chunk.extend(bytes);
        chunk
    }

    #[test]
    fn a_chunk_is_found_when_all_of_it_has_come() {
        let stream = encoded(2, 77, &[5; 32]);
        for part in 0..stream.len() {
            assert_eq!(next(&stream[..part]), Next::Part, "{part}");
        }
        let chunk = Chunk {
            kind: ChunkKind::Entries,
            thread: 77,
            bytes: &[5; 32],
        };
        assert_eq!(next(&stream), Next::Chunk(chunk, 48));
        let more = [&stream[..], b"RHRC"].concat();
        assert_eq!(next(&more), Next::Chunk(chunk, 48));
    }

    #[test]
    fn other_bytes_are_no_chunk() {
        assert_eq!(next(b"hello, world, this is no chunk"), Next::Nonsense);
        assert_eq!(next(&encoded(99, 1, &[])), Next::Nonsense);
        let mut huge = encoded(2, 1, &[]);
        huge[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(next(&huge), Next::Nonsense);
    }
}
