//! Decompression within bounds: a few bytes must not become gigabytes.

use object::{CompressedData, CompressionFormat};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a file's compressed parts may be unpacked, all of them together. Parts that
/// share their bytes count each.
///
/// Debug information and kernels unpack to 3 to 8 times their size.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicU64,
}

/// How much larger than the file everything in it may become,
const MOST_TIMES: u64 = 16;
/// except that every file may have as much as this,
const LEAST: u64 = 64 << 20;
/// and none has more.
const MOST: u64 = 4 << 30;

/// The largest window or dictionary of a decoder, which is memory beyond the result. Kernels
/// are packed with at most half of it.
pub(crate) const MOST_WINDOW: u32 = 256 << 20;

impl Budget {
    /// The budget of a file of `len` bytes.
    pub const fn of_file(len: usize) -> Self {
        let wanted = (len as u64).saturating_mul(MOST_TIMES);
        let left = match wanted {
            ..LEAST => LEAST,
            LEAST..=MOST => wanted,
            _ => MOST,
        };
        Self {
            left: AtomicU64::new(left),
        }
    }

    /// Takes `size` bytes from it.
    pub fn take(&self, size: u64) -> io::Result<()> {
        let less = |left: u64| left.checked_sub(size);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .map(drop)
            .map_err(|_| io::Error::other("it unpacks to far more than a file of its size holds"))
    }

    /// All that `decoder` gives: exactly `claimed` bytes, if that is known beforehand.
    pub fn read(&self, claimed: Option<u64>, decoder: impl Read) -> io::Result<Vec<u8>> {
        let mut unpacked = Vec::new();
        let most = match claimed {
            Some(claimed) => {
                self.take(claimed)?;
                let len = usize::try_from(claimed).map_err(io::Error::other)?;
                unpacked.try_reserve_exact(len).map_err(io::Error::other)?;
                claimed
            }
            None => self.left.load(Ordering::Relaxed),
        };
        decoder.take(most + 1).read_to_end(&mut unpacked)?;
        let len = unpacked.len() as u64;
        match claimed {
            Some(claimed) if len != claimed => {
                let word = if len > claimed { "more" } else { "less" };
                let why = format!("it unpacks to {word} than the {claimed} bytes that it claims");
                return Err(io::Error::other(why));
            }
            Some(_) => {}
            None => self.take(len)?,
        }
        Ok(unpacked)
    }

    /// The contents of a section. A plain one costs nothing.
    pub fn section<'d>(&self, section: CompressedData<'d>) -> io::Result<Cow<'d, [u8]>> {
        let claimed = Some(section.uncompressed_size);
        let unpacked = match section.format {
            CompressionFormat::None => return Ok(Cow::Borrowed(section.data)),
            CompressionFormat::Zlib => {
                self.read(claimed, flate2::read::ZlibDecoder::new(section.data))?
            }
            CompressionFormat::Zstandard => self.read(claimed, ZstdFrames::new(section.data))?,
            _ => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        };
        Ok(Cow::Owned(unpacked))
    }
}

/// A decoder for zstd frames, of which some linkers write many. It ends at the first byte
/// that does not belong to one.
pub(crate) struct ZstdFrames<'d> {
    rest: &'d [u8],
    frame: Option<StreamingDecoder<&'d [u8], FrameDecoder>>,
}

impl<'d> ZstdFrames<'d> {
    pub const fn new(packed: &'d [u8]) -> Self {
        Self {
            rest: packed,
            frame: None,
        }
    }
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let len = frame.read(to)?;
                if len > 0 || to.is_empty() {
                    return Ok(len);
                }
                self.rest = frame.get_ref();
                // The decoder computes the checksum but does not compare it.
                let (told, found) = (
                    frame.decoder.get_checksum_from_data(),
                    frame.decoder.get_calculated_checksum(),
                );
                if told.is_some() && told != found {
                    return Err(io::Error::other("its checksum does not match"));
                }
            }
            if !self.rest.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
                self.frame = None;
                return Ok(0);
            }
            let frame = StreamingDecoder::new_with_max_window_size(self.rest, MOST_WINDOW.into());
            self.frame = Some(frame.map_err(io::Error::other)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, LinkError, link};
    use object::write::{Object, StandardSection};
    use object::{Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind, elf};
    use std::io::Write;

    const MIB: usize = 1 << 20;

    fn zlib(len: usize) -> (u32, Vec<u8>) {
        let mut to = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        to.write_all(&vec![0; len]).unwrap();
        (elf::ELFCOMPRESS_ZLIB, to.finish().unwrap())
    }

    /// A frame for each MiB, and in each a block for each 128 KiB of zeros.
    fn zstd(len: usize) -> (u32, Vec<u8>) {
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
        let (block, last) = ([0x02, 0, 0x10, 0], [0x03, 0, 0x10, 0]);
        let frame = [&frame[..], &block.repeat(7), &last].concat();
        (elf::ELFCOMPRESS_ZSTD, frame.repeat(len / MIB))
    }

    /// An object file with code, and with sections that claim to unpack to `claimed` bytes.
    fn file(names: &[&str], claimed: usize, (format, packed): &(u32, Vec<u8>)) -> Vec<u8> {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = object.section_id(StandardSection::Text);
        object.append_section_data(text, &[0xc3], 1);
        for name in names {
            let id = object.add_section(vec![], name.as_bytes().to_vec(), SectionKind::Debug);
            let header = [u64::from(*format), claimed as u64, 1]
                .map(u64::to_le_bytes)
                .concat();
            object.append_section_data(id, &[&header, &packed[..]].concat(), 1);
            let sh_flags = elf::SHF_COMPRESSED.into();
            object.section_mut(id).flags = SectionFlags::Elf { sh_flags };
        }
        object.write().unwrap()
    }

    fn image(bytes: &[u8]) -> Image {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, bytes).unwrap();
        Image::open(file.path()).unwrap()
    }

    fn linked(bytes: &[u8]) -> Result<Vec<u8>, LinkError> {
        link(bytes, &[(".text".to_owned(), 0x1000)], None, &|_| None)
    }

    #[test]
    fn budgets_grow_with_the_file_within_bounds() {
        let left = |len: usize| Budget::of_file(len).left.into_inner();
        assert_eq!(left(0), LEAST);
        assert_eq!(left(10 * MIB), 160 << 20, "a kernel of 10 MB unpacks to 60");
        assert_eq!(left(600 * MIB), MOST);
        assert_eq!(left(usize::MAX), MOST);
    }

    #[test]
    fn a_decoder_without_end_is_read_only_as_far_as_needed() {
        let budget = Budget::of_file(0);
        let told = |claimed| {
            let read = budget.read(claimed, io::repeat(0));
            read.unwrap_err().to_string()
        };
        assert!(told(Some(100)).contains("more than the 100 bytes"));
        assert!(told(None).contains("far more"));
        assert!(told(Some(LEAST)).contains("far more"), "100 are taken");
        assert_eq!(budget.read(Some(3), &b"abc"[..]).unwrap(), b"abc");
        assert_eq!(budget.read(None, &b"abc"[..]).unwrap(), b"abc");
        let short = budget.read(Some(4), &b"abc"[..]).unwrap_err();
        assert!(short.to_string().contains("less than the 4 bytes"));
    }

    #[test]
    fn sections_unpack_to_what_they_claim() {
        for packed in [zlib(2 * MIB), zstd(2 * MIB)] {
            let honest = file(&[".debug_info"], 2 * MIB, &packed);
            assert_eq!(
                image(&honest).section(".debug_info").unwrap(),
                vec![0; 2 * MIB]
            );
            linked(&honest).unwrap();
            for lie in [0, 100, 2 * MIB - 1, 2 * MIB + 1, usize::MAX] {
                let lying = file(&[".debug_info"], lie, &packed);
                assert_eq!(image(&lying).section(".debug_info"), None, "{lie} claimed");
                assert!(linked(&lying).is_err(), "{lie} claimed");
            }
        }
    }

    #[test]
    fn sections_of_one_file_share_its_budget() {
        const NAMES: [&str; 3] = [".debug_info", ".debug_str", ".debug_frame"];
        for packed in [zlib(30 * MIB), zstd(30 * MIB)] {
            let bytes = file(&NAMES, 30 * MIB, &packed);
            let image = image(&bytes);
            let unpacked = NAMES.map(|name| image.section(name).is_some());
            assert_eq!(unpacked, [true, true, false]);
            assert_eq!(image.debug().section(NAMES[2]), None, "the same file");
            assert!(linked(&bytes).is_err());
        }
    }
}
