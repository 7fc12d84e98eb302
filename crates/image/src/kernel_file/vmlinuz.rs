//! The ELF image inside a vmlinuz.
//!
//! A bzImage consists of a boot sector, real-mode code, and a small program that unpacks the
//! actual kernel. Its header tells where the packed kernel is, which begins with the magic
//! number of its format and is followed by its unpacked size. The decoders do not get to see
//! that size.

use super::{KernelFileError, u16_at, u32_at};
use std::borrow::Cow;
use std::io::{self, Read};

/// No unpacked kernel is larger: a vmlinux with all debug information has about half of it.
const MAX_SIZE: u64 = 1 << 30;

/// The largest dictionary of a decoder. Kernels are packed with at most 128 MiB.
const MAX_DICTIONARY: u32 = 512 << 20;

/// The ELF image in a kernel file: a bzImage, a packed vmlinux, or a plain vmlinux, which is
/// not copied.
///
/// # Errors
/// If it is something else, cannot be unpacked, or would be larger than 1 GiB.
pub fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, KernelFileError> {
    let payload = payload(bytes)?;
    let unpacked = match Format::of(payload) {
        Some(Format::Elf) => return Ok(Cow::Borrowed(payload)),
        Some(format) => format
            .decode(payload)
            .map_err(|source| KernelFileError::Unpack {
                format: format.name(),
                source,
            })?,
        None => {
            return Err(KernelFileError::NotKernel {
                what: if payload.is_empty() {
                    "empty".to_owned()
                } else {
                    "some other kind of file, or packed in an unknown way".to_owned()
                },
            });
        }
    };
    match Format::of(&unpacked) {
        Some(Format::Elf) => Ok(Cow::Owned(unpacked)),
        _ => Err(KernelFileError::NotKernel {
            what: "something packed that is no ELF file".to_owned(),
        }),
    }
}

/// The packed kernel in a bzImage; the whole of any other file.
fn payload(bytes: &[u8]) -> Result<&[u8], KernelFileError> {
    const SETUP_SECTORS: usize = 0x1f1;
    const MAGIC: usize = 0x202;
    const VERSION: usize = 0x206;
    const PAYLOAD: usize = 0x248;
    if bytes.get(MAGIC..VERSION) != Some(b"HdrS") {
        return Ok(bytes);
    }
    let cut = || KernelFileError::malformed("boot header", "the file is cut short");
    let version = u16_at(bytes, VERSION).ok_or_else(cut)?;
    if version < 0x208 {
        return Err(KernelFileError::TooOld { version });
    }
    let sectors = match bytes.get(SETUP_SECTORS) {
        // As boot loaders do for kernels that predate the field.
        Some(0) => 4,
        Some(sectors) => usize::from(*sectors),
        None => return Err(cut()),
    };
    let field = |at| {
        u32_at(bytes, at)
            .and_then(|value| usize::try_from(value).ok())
            .ok_or_else(cut)
    };
    let (offset, len) = (field(PAYLOAD)?, field(PAYLOAD + 4)?);
    ((sectors + 1) * 512)
        .checked_add(offset)
        .and_then(|start| bytes.get(start..start.checked_add(len)?))
        .filter(|payload| !payload.is_empty())
        .ok_or_else(|| {
            KernelFileError::malformed("boot header", "the packed kernel lies outside the file")
        })
}

/// The compression formats of kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Elf,
    Gzip,
    Xz,
    Lzma,
    Bzip2,
    Lz4,
    Zstd,
}

impl Format {
    /// The magic number at the start, which the kernel's own scripts look for, too.
    fn of(data: &[u8]) -> Option<Self> {
        Some(match data {
            [0x7f, b'E', b'L', b'F', ..] => Self::Elf,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x5d, 0, 0, ..] => Self::Lzma,
            [b'B', b'Z', b'h', ..] => Self::Bzip2,
            [0x02, 0x21, 0x4c, 0x18, ..] => Self::Lz4,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Elf => "nothing",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Lzma => "lzma",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    fn decode(self, packed: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Elf => Ok(packed.to_vec()),
            Self::Gzip => all(flate2::read::GzDecoder::new(packed)),
            Self::Xz => all(lzma_rust2::XzReader::new_mem_limit(
                packed,
                false,
                MAX_DICTIONARY >> 10,
            )),
            Self::Lzma => all(lzma_rust2::LzmaReader::new_mem_limit(
                packed,
                MAX_DICTIONARY >> 10,
                None,
            )?),
            Self::Bzip2 => all(bzip2::read::BzDecoder::new(packed)),
            Self::Lz4 => lz4_blocks(packed),
            Self::Zstd => zstd_frame(packed),
        }
    }
}

/// The whole output of a decoder, unless it is too large.
fn all(mut decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    decoder
        .by_ref()
        .take(MAX_SIZE + 1)
        .read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > MAX_SIZE {
        return Err(too_large());
    }
    Ok(unpacked)
}

fn too_large() -> io::Error {
    io::Error::other("it would be larger than 1 GiB")
}

fn zstd_frame(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(
        packed,
        u64::from(MAX_DICTIONARY),
    )
    .map_err(io::Error::other)?;
    let unpacked = all(&mut decoder)?;
    let frame = decoder.into_frame_decoder();
    // The decoder computes the checksum but does not compare it.
    if let (Some(told), Some(found)) = (
        frame.get_checksum_from_data(),
        frame.get_calculated_checksum(),
    ) && told != found
    {
        return Err(io::Error::other("its checksum does not match"));
    }
    Ok(unpacked)
}

/// The legacy lz4 format, which the kernel uses: the magic number and then only blocks, each
/// after its packed size, without an end mark. What follows is shorter than a block.
fn lz4_blocks(packed: &[u8]) -> io::Result<Vec<u8>> {
    const HEADER: usize = 4;
    const BLOCK: usize = 8 << 20;
    let mut unpacked = Vec::new();
    let mut block = vec![0; BLOCK];
    let mut at = HEADER;
    while packed.len().saturating_sub(at) > HEADER {
        let cut = || io::Error::other("a block is cut short");
        let size = u32_at(packed, at)
            .and_then(|size| usize::try_from(size).ok())
            .ok_or_else(cut)?;
        at += HEADER;
        let data = at
            .checked_add(size)
            .and_then(|end| packed.get(at..end))
            .ok_or_else(cut)?;
        at += size;
        let len = lz4_flex::block::decompress_into(data, &mut block).map_err(io::Error::other)?;
        unpacked.extend_from_slice(block.get(..len).ok_or_else(cut)?);
        if unpacked.len() as u64 > MAX_SIZE {
            return Err(too_large());
        }
    }
    Ok(unpacked)
}
