//! Whole stacks from registers, stack memory and the files' unwind tables.
//!
//! Takes modules as images with the bias they are loaded at, and memory as a
//! closure; does no I/O on the target. Works at any instruction the tables
//! cover (they describe prologues and epilogues too) without frame pointers;
//! where there is no table it follows frame pointers.

use crate::Image;
use framehop::x86_64::{CacheX86_64, Reg, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use gimli::{BaseAddresses, EhFrameHdr, LittleEndian};
use memmap2::Mmap;
use object::{Object, ObjectSection};
use redhanded_model::{Register, Registers};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// No stack is told deeper than this.
pub const MAX_FRAMES: usize = 128;

/// `mov $15, %rax; syscall`: what a signal handler returns to. The kernel and
/// every C library spell it so, because debuggers look for these very bytes.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05];

/// Where the kernel's signal frame (above the handler's return address) keeps
/// the interrupted registers.
const SIGNAL_RBP: u64 = 120;
const SIGNAL_RSP: u64 = 160;
const SIGNAL_RIP: u64 = 168;

/// Unwinds the stacks of one address space.
pub struct Unwinder {
    modules: UnwinderX86_64<Section>,
    cache: CacheX86_64,
}

impl Default for Unwinder {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinder").finish_non_exhaustive()
    }
}

impl Unwinder {
    /// One that knows no modules yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            modules: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
        }
    }

    /// Makes known that `image` is loaded so that live addresses are stated
    /// addresses plus `bias` (wrapping).
    pub fn add_module(&mut self, image: &Image, bias: u64) {
        let Some(svma) = extent(image) else { return };
        let start = svma.start.wrapping_add(bias);
        let Some(end) = start.checked_add(svma.end - svma.start) else {
            return;
        };
        // A file mapped again where it was replaces itself.
        self.modules.remove_module(start);
        self.modules.add_module(Module::new(
            image.name(),
            start..end,
            start,
            sections(image, svma.start),
        ));
    }

    /// Forgets the module which [`add_module`](Self::add_module) made known.
    pub fn remove_module(&mut self, image: &Image, bias: u64) {
        if let Some(svma) = extent(image) {
            self.modules.remove_module(svma.start.wrapping_add(bias));
        }
    }

    /// The stack of a task with these registers: first its pc, then return
    /// addresses, innermost first.
    ///
    /// What a return address belongs to is found by looking up the address
    /// minus one. That holds for every element but the first, also for a
    /// function that was interrupted by a signal: its pc is given plus one.
    /// `read` gives the eight bytes at an address, or nothing.
    pub fn unwind(
        &mut self,
        registers: &Registers,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<u64> {
        let mut state = UnwindRegsX86_64::new(
            registers.rip,
            registers.get(Register::Rsp),
            registers.get(Register::Rbp),
        );
        let mut frames = vec![registers.rip];
        let mut address = FrameAddress::from_instruction_pointer(registers.rip);
        // A signal handler may run on a stack of its own, above or below.
        let mut floor = state.sp();
        while frames.len() < MAX_FRAMES {
            if is_signal_return(address.address(), read) {
                let Some(interrupted) = interrupted(&state, read) else {
                    break;
                };
                state = interrupted;
                address = FrameAddress::from_instruction_pointer(state.ip());
                floor = state.sp();
                frames.push(state.ip().wrapping_add(1));
                continue;
            }
            let mut stack = |at: u64| read(at).ok_or(());
            let Ok(Some(caller)) =
                self.modules
                    .unwind_frame(address, &mut state, &mut self.cache, &mut stack)
            else {
                break;
            };
            // A call pushes, so its caller's stack ends higher: anything else
            // is a cycle or garbage.
            if state.sp() <= floor {
                break;
            }
            floor = state.sp();
            state.set_ip(caller);
            let Some(next) = FrameAddress::from_return_address(caller) else {
                break;
            };
            address = next;
            frames.push(caller);
        }
        frames
    }
}

fn is_signal_return(pc: u64, read: &mut dyn FnMut(u64) -> Option<u64>) -> bool {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0u64, |word, byte| word << 8 | u64::from(*byte))
    };
    let first = word(&SIGNAL_RETURN[..8]);
    read(pc) == Some(first) && read(pc.wrapping_add(1)) == Some(word(&SIGNAL_RETURN[1..]))
}

/// The registers a signal interrupted, from the frame the kernel made: the
/// stack pointer is at it once the handler has returned.
fn interrupted(
    state: &UnwindRegsX86_64,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<UnwindRegsX86_64> {
    let mut at = |offset: u64| read(state.get(Reg::RSP).wrapping_add(offset));
    Some(UnwindRegsX86_64::new(
        at(SIGNAL_RIP)?,
        at(SIGNAL_RSP)?,
        at(SIGNAL_RBP)?,
    ))
}

/// From the lowest to the highest stated address.
fn extent(image: &Image) -> Option<Range<u64>> {
    let segments = || image.segments().iter().filter(|s| s.mem_size > 0);
    let start = segments().map(|s| s.svma.0).min()?;
    let end = segments()
        .map(|s| s.svma.0.saturating_add(s.mem_size))
        .max()?;
    (start < end).then_some(start..end)
}

fn sections(image: &Image, base_svma: u64) -> ExplicitModuleSectionInfo<Section> {
    let mut info = ExplicitModuleSectionInfo {
        base_svma,
        ..Default::default()
    };
    let Some(object) = image.object() else {
        return info;
    };
    let find = |name: &str| {
        let section = object.section_by_name(name)?;
        let start = section.address();
        let end = start.checked_add(section.size())?;
        Some((start..end, Section::mapped(image, &section)?))
    };
    info.text_svma = find(".text").map(|(range, _)| range);
    info.got_svma = find(".got").map(|(range, _)| range);
    if let Some((range, data)) = find(".eh_frame").filter(|(_, data)| !data.is_empty()) {
        info.eh_frame_svma = Some(range);
        info.eh_frame = Some(data);
        // Without its search table the header is of no use, and worse than
        // none: with none, the table is built from .eh_frame.
        if let Some((range, data)) =
            find(".eh_frame_hdr").filter(|(range, data)| searchable(range, data))
        {
            info.eh_frame_hdr_svma = Some(range);
            info.eh_frame_hdr = Some(data);
        }
    } else {
        info.debug_frame = debug_frame(image);
    }
    info
}

fn searchable(range: &Range<u64>, data: &[u8]) -> bool {
    let bases = BaseAddresses::default().set_eh_frame_hdr(range.start);
    EhFrameHdr::new(data, LittleEndian)
        .parse(&bases, 8)
        .is_ok_and(|header| header.table().is_some())
}

/// `.debug_frame` of the file itself or of its separate debug file.
fn debug_frame(image: &Image) -> Option<Section> {
    let own = image
        .section(".debug_frame")
        .map(std::borrow::Cow::into_owned);
    own.or_else(|| image.debug().section(".debug_frame"))
        .filter(|data| !data.is_empty())
        .map(Section::Owned)
}

/// The bytes of a section, kept alive by themselves.
enum Section {
    Mapped(Arc<Mmap>, Range<usize>),
    Owned(Vec<u8>),
}

impl Default for Section {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl Section {
    fn mapped<'d>(image: &'d Image, section: &impl ObjectSection<'d>) -> Option<Self> {
        let (start, len) = section.file_range()?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        let plain = section.compressed_file_range().ok()?.format == object::CompressionFormat::None;
        if plain && image.data().get(start..end).is_some() {
            return Some(Self::Mapped(image.mapping(), start..end));
        }
        Some(Self::Owned(section.uncompressed_data().ok()?.into_owned()))
    }
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(file, range) => file.get(range.clone()).unwrap_or_default(),
            Self::Owned(bytes) => bytes,
        }
    }
}
