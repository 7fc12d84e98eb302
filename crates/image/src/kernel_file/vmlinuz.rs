//! The ELF image inside a vmlinuz.
//!
//! A bzImage consists of a boot sector, real-mode code, and a small program that unpacks the
//! actual kernel. Its header tells where the packed kernel is, which begins with the magic
//! number of its format and ends with its unpacked size, which gzip writes anyway.

use super::{KernelFileError, u16_at, u32_at};
use crate::budget::{Budget, MOST_WINDOW, ZstdFrames};
use std::borrow::Cow;
use std::io::{self, Read};

/// The ELF image in a kernel file: a bzImage, a packed vmlinux, or a plain vmlinux, which is
/// not copied.
///
/// # Errors
/// If it is something else, cannot be unpacked, or unpacks to another size than it says, or to
/// far more than a kernel of its size does.
pub fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, KernelFileError> {
    let payload = payload(bytes)?;
    let in_boot_image = payload.len() < bytes.len();
    let claimed = payload.last_chunk().filter(|_| in_boot_image);
    let claimed = claimed.map(|size| u64::from(u32::from_le_bytes(*size)));
    let unpacked = match Format::of(payload) {
        Some(Format::Elf) => return Ok(Cow::Borrowed(payload)),
        Some(format) => format
            .decode(payload, claimed, &Budget::of_file(bytes.len()))
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

    fn decode(self, packed: &[u8], claimed: Option<u64>, budget: &Budget) -> io::Result<Vec<u8>> {
        let memory = MOST_WINDOW >> 10;
        let decoder: Box<dyn Read + '_> = match self {
            Self::Elf => Box::new(packed),
            Self::Gzip => Box::new(flate2::read::GzDecoder::new(packed)),
            Self::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(packed, false, memory)),
            Self::Lzma => {
                let decoder = lzma_rust2::LzmaReader::new_mem_limit(packed, memory, None)?;
                Box::new(decoder)
            }
            Self::Bzip2 => Box::new(bzip2::read::BzDecoder::new(packed)),
            Self::Lz4 => Box::new(Lz4Blocks::new(packed)),
            Self::Zstd => Box::new(ZstdFrames::new(packed)),
        };
        budget.read(claimed, decoder)
    }
}

/// The legacy lz4 format, which the kernel uses: the magic number and then only blocks, each
/// after its packed size, without an end mark. What follows is shorter than a block.
struct Lz4Blocks<'d> {
    rest: &'d [u8],
    block: io::Cursor<Vec<u8>>,
}

impl<'d> Lz4Blocks<'d> {
    const HEADER: usize = 4;
    const BLOCK: usize = 8 << 20;

    fn new(packed: &'d [u8]) -> Self {
        Self {
            rest: packed.get(Self::HEADER..).unwrap_or_default(),
            block: io::Cursor::default(),
        }
    }
}

impl Read for Lz4Blocks<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let len = self.block.read(to)?;
            if len > 0 || to.is_empty() || self.rest.len() <= Self::HEADER {
                return Ok(len);
            }
            let size = u32_at(self.rest, 0).and_then(|size| usize::try_from(size).ok());
            let (data, rest) = size
                .and_then(|size| self.rest.get(Self::HEADER..)?.split_at_checked(size))
                .ok_or_else(|| io::Error::other("a block is cut short"))?;
            self.rest = rest;
            let block = lz4_flex::block::decompress(data, Self::BLOCK).map_err(io::Error::other)?;
            self.block = io::Cursor::new(block);
        }
    }
}
