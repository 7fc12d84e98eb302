//! Memory as one order sees it: the source's pages, and copies of those it has written to.

use crate::bytes::Bytes;
use crate::memory::{Fetched, Memory, PAGE, page_of};
use crate::outcome::{End, Fault};
use std::collections::BTreeMap;

/// The bytes of a page. Instructions run on them in place, and some want their operand aligned as
/// the page itself is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[repr(align(64))]
pub(crate) struct AlignedPage(pub [u8; 4096]);

type PageBytes = Box<AlignedPage>;

/// One access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub address: u64,
    pub size: u32,
    pub write: bool,
}

struct Frame {
    page: u64,
    /// What the source said; its bytes are in `original`.
    kind: Kind,
    original: PageBytes,
    /// The copy that was written to in this order.
    written: Option<PageBytes>,
    /// Whether decoded instructions are kept of it.
    decoded: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Page { writable: bool, executable: bool },
    Unmapped,
    Unknown,
    Changing,
}

const SLOTS: usize = 256;
/// More pages than this no region touches.
const MOST_PAGES: usize = 16 * 1024;

pub(crate) struct Space<'a> {
    source: &'a mut dyn Memory,
    frames: Vec<Frame>,
    by_page: BTreeMap<u64, usize>,
    /// Frames found last, by the low bits of their page number.
    found: Box<[(u64, usize); SLOTS]>,
    /// Accesses to data since it was last emptied.
    pub log: Vec<Access>,
    /// Whether a page that instructions were decoded from was written to.
    pub code_changed: bool,
}

impl<'a> Space<'a> {
    pub fn new(source: &'a mut dyn Memory) -> Self {
        Self {
            source,
            frames: Vec::new(),
            by_page: BTreeMap::new(),
            found: Box::new([(1, 0); SLOTS]),
            log: Vec::new(),
            code_changed: false,
        }
    }

    fn frame(&mut self, page: u64) -> Result<usize, End> {
        let slot = (page / PAGE) as usize % SLOTS;
        if self.found[slot].0 == page {
            return Ok(self.found[slot].1);
        }
        let index = match self.by_page.get(&page) {
            Some(index) => *index,
            None => self.fetch(page)?,
        };
        self.found[slot] = (page, index);
        Ok(index)
    }

    #[cold]
    fn fetch(&mut self, page: u64) -> Result<usize, End> {
        if self.frames.len() == MOST_PAGES {
            return Err(End::Bound);
        }
        let (kind, original) = match self.source.fetch(page) {
            Fetched::Page(p) => (
                Kind::Page {
                    writable: p.writable,
                    executable: p.executable,
                },
                Box::new(AlignedPage(p.bytes.0)),
            ),
            Fetched::Unmapped => (Kind::Unmapped, Box::new(AlignedPage([0; 4096]))),
            Fetched::Unknown => (Kind::Unknown, Box::new(AlignedPage([0; 4096]))),
            Fetched::Changing => (Kind::Changing, Box::new(AlignedPage([0; 4096]))),
        };
        let index = self.frames.len();
        self.frames.push(Frame {
            page,
            kind,
            original,
            written: None,
            decoded: false,
        });
        self.by_page.insert(page, index);
        Ok(index)
    }

    fn readable(&mut self, address: u64) -> Result<usize, End> {
        let index = self.frame(page_of(address))?;
        match self.frames[index].kind {
            Kind::Page { .. } => Ok(index),
            Kind::Unmapped => Err(End::Fault(Fault::Unmapped { address })),
            Kind::Unknown => Err(End::UnknownMemory { address }),
            Kind::Changing => Err(End::Clock),
        }
    }

    fn bytes(&self, index: usize) -> &[u8; 4096] {
        let frame = &self.frames[index];
        &frame.written.as_ref().unwrap_or(&frame.original).0
    }

    fn bytes_mut(&mut self, index: usize) -> &mut [u8; 4096] {
        let frame = &mut self.frames[index];
        self.code_changed |= frame.decoded;
        let written = &mut frame.written;
        &mut written.get_or_insert_with(|| frame.original.clone()).0
    }

    fn writable(&mut self, address: u64) -> Result<usize, End> {
        let index = self.readable(address)?;
        match self.frames[index].kind {
            Kind::Page { writable: true, .. } => Ok(index),
            _ => Err(End::Fault(Fault::ReadOnly { address })),
        }
    }

    /// Says that data is accessed, without touching it.
    #[inline]
    pub fn note(&mut self, address: u64, size: usize, write: bool) {
        self.log.push(Access {
            address,
            size: size as u32,
            write,
        });
    }

    /// Where the bytes are, for an instruction that runs on them in place. They must be
    /// within one page.
    #[inline]
    pub fn in_place(&mut self, address: u64, write: bool) -> Result<*mut u8, End> {
        let offset = (address % PAGE) as usize;
        if write {
            let index = self.writable(address)?;
            Ok(self.bytes_mut(index)[offset..].as_mut_ptr())
        } else {
            let index = self.readable(address)?;
            Ok(self.bytes(index)[offset..].as_ptr().cast_mut())
        }
    }

    /// Whether these bytes may be accessed so.
    pub fn check(&mut self, address: u64, size: usize, write: bool) -> Result<(), End> {
        for page in pages(address, size) {
            let at = page.max(address);
            if write {
                self.writable(at)?;
            } else {
                self.readable(at)?;
            }
        }
        Ok(())
    }

    /// Reads without noting it.
    pub fn peek(&mut self, address: u64, into: &mut [u8]) -> Result<(), End> {
        let mut done = 0;
        while done < into.len() {
            let at = address.wrapping_add(done as u64);
            let offset = (at % PAGE) as usize;
            let part = (into.len() - done).min(4096 - offset);
            let index = self.readable(at)?;
            into[done..done + part].copy_from_slice(&self.bytes(index)[offset..offset + part]);
            done += part;
        }
        Ok(())
    }

    /// Writes without noting it: all or, if that is not allowed, nothing.
    pub fn poke(&mut self, address: u64, bytes: &[u8]) -> Result<(), End> {
        self.check(address, bytes.len(), true)?;
        let mut done = 0;
        while done < bytes.len() {
            let at = address.wrapping_add(done as u64);
            let offset = (at % PAGE) as usize;
            let part = (bytes.len() - done).min(4096 - offset);
            let index = self.writable(at)?;
            self.bytes_mut(index)[offset..offset + part].copy_from_slice(&bytes[done..done + part]);
            done += part;
        }
        Ok(())
    }

    /// Reads data.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), End> {
        self.peek(address, into)?;
        self.note(address, into.len(), false);
        Ok(())
    }

    /// Writes data.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), End> {
        self.poke(address, bytes)?;
        self.note(address, bytes.len(), true);
        Ok(())
    }

    /// Reads a number of up to eight bytes.
    pub fn read_number(&mut self, address: u64, size: usize) -> Result<u64, End> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes[..size])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes a number of up to eight bytes.
    pub fn write_number(&mut self, address: u64, size: usize, value: u64) -> Result<(), End> {
        self.write(address, &value.to_le_bytes()[..size])
    }

    /// Up to 15 bytes of code. Fewer where the next page cannot be run.
    pub fn code(&mut self, ip: u64) -> Result<([u8; 15], usize), End> {
        let mut code = [0; 15];
        let mut length = 0;
        while length < 15 {
            let at = ip.wrapping_add(length as u64);
            let index = match self.readable(at) {
                Ok(index) => index,
                Err(end) if length == 0 => return Err(end),
                Err(_) => break,
            };
            let executable = matches!(
                self.frames[index].kind,
                Kind::Page {
                    executable: true,
                    ..
                }
            );
            if !executable {
                if length == 0 {
                    return Err(End::Fault(Fault::NotExecutable { address: ip }));
                }
                break;
            }
            self.frames[index].decoded = true;
            let offset = (at % PAGE) as usize;
            let part = (15 - length).min(4096 - offset);
            code[length..length + part].copy_from_slice(&self.bytes(index)[offset..offset + part]);
            length += part;
        }
        Ok((code, length))
    }

    /// Forgets what was written, and gives it: whole pages by their address.
    pub fn take_written(&mut self) -> Written {
        let mut written = Written::new();
        for frame in &mut self.frames {
            if let Some(bytes) = frame.written.take() {
                self.code_changed |= frame.decoded;
                written.insert(frame.page, bytes);
            }
        }
        written
    }

    /// All pages that were asked for, as they are now.
    pub fn pages(&self) -> Vec<(u64, Bytes<4096>)> {
        let pages = self.by_page.iter();
        let pages =
            pages.filter(|(_, index)| matches!(self.frames[**index].kind, Kind::Page { .. }));
        pages
            .map(|(page, index)| (*page, Bytes(*self.bytes(*index))))
            .collect()
    }

    /// The bytes of a page before anything was written.
    pub fn original(&self, page: u64) -> Option<&[u8; 4096]> {
        let index = self.by_page.get(&page)?;
        Some(&self.frames[*index].original.0)
    }

    /// Changes what the memory held at the start, for all orders.
    pub fn set_original(&mut self, address: u64, bytes: &[u8]) -> Result<(), End> {
        for (at, byte) in (address..).zip(bytes) {
            let index = self.readable(at)?;
            self.code_changed |= self.frames[index].decoded;
            self.frames[index].original.0[(at % PAGE) as usize] = *byte;
        }
        Ok(())
    }
}

/// Pages that one order has written to.
pub(crate) type Written = BTreeMap<u64, PageBytes>;

fn pages(address: u64, size: usize) -> impl Iterator<Item = u64> {
    let first = page_of(address);
    let last = page_of(address.wrapping_add(size.max(1) as u64 - 1));
    std::iter::once(first).chain((last != first).then_some(last))
}
