//! Linear decoding of functions into sites.

use super::slots::{Slots, takes_address};
use super::text::{Text, padding_start};
use crate::frames::{FrameRules, Top, Tops};
use crate::instruction::SegmentBase;
use crate::kernel_text::KernelText;
use crate::layout::Layout;
use crate::unwind::Orc;
use crate::{Function, Image, Instruction, Operand};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind};
use redhanded_model::{Excluded, Exclusions, Site, Svma};
use std::ops::Range;

/// The result of decoding a range of functions.
#[derive(Default)]
pub(super) struct Scanned {
    pub sites: Vec<Site>,
    pub excluded: Exclusions,
    /// How many instructions of each function in the range were left out.
    pub excluded_in: Vec<u32>,
    /// Addresses in code that an instruction reads from (true) or takes (false).
    pub references: Vec<(u64, bool)>,
}

/// Where the frame of the current function is.
enum Frame {
    Unasked,
    Told(Tops),
    /// It has no unwind entry, but sets up rbp.
    AtRbp,
    /// It has no unwind entry.
    Unknown,
}

pub(super) struct Scanner<'a> {
    image: &'a Image,
    layout: &'a Layout,
    /// Whether immediates can be addresses, because the file is loaded where it says.
    fixed: bool,
    rules: FrameRules<'a>,
    kernel: Option<&'a KernelText>,
    orc: Option<&'a Orc>,
    text: Text,
    raw: iced_x86::Instruction,
    slots: Slots,
    found: Scanned,
    counts: [u32; REASONS.len()],
}

/// The reasons for leaving out single instructions.
const REASONS: [Excluded; 8] = [
    Excluded::Stack,
    Excluded::PushPopCall,
    Excluded::Locked,
    Excluded::NoData,
    Excluded::ThreadLocal,
    Excluded::GotOrRelro,
    Excluded::ReadOnly,
    Excluded::Unsupported,
];

/// What an instruction means for the sampling set.
enum Role {
    Irrelevant,
    Excluded(Excluded),
    Site(Site),
}

impl<'a> Scanner<'a> {
    pub fn new(image: &'a Image) -> Self {
        Self {
            image,
            layout: image.layout(),
            fixed: !image.position_independent(),
            rules: FrameRules::new(image, image.frames()),
            kernel: image.kernel_text(),
            orc: image.orc().map(|orc| &**orc),
            text: Text::default(),
            raw: iced_x86::Instruction::default(),
            slots: Slots::new(image.is_go()),
            found: Scanned::default(),
            counts: [0; REASONS.len()],
        }
    }

    pub fn scan(mut self, range: Range<usize>) -> Scanned {
        let functions = self.image.functions().as_slice();
        for index in range {
            if let (Some(function), Ok(number)) = (functions.get(index), u32::try_from(index)) {
                self.function(function, number);
            }
        }
        self.found.sites.shrink_to_fit();
        self.found
    }

    fn function(&mut self, function: &Function, number: u32) {
        self.counts = [0; REASONS.len()];
        let first = self.found.sites.len();
        let clean = self.decode(function, number);
        let mut left_out: u32 = 0;
        for (reason, count) in REASONS.iter().zip(self.counts) {
            self.found.excluded.add_many(*reason, u64::from(count));
            left_out = left_out.saturating_add(count);
        }
        let reason = match self.kernel.and_then(|k| k.excluded(function.start.0)) {
            None if !clean => Some(Excluded::DataInText),
            reason => reason,
        };
        if let Some(reason) = reason {
            // Count at least one, so that a dropped function is visible.
            let dropped = (self.found.sites.len() - first).max(1);
            self.found.sites.truncate(first);
            self.found.excluded.add_many(reason, dropped as u64);
            left_out = left_out.saturating_add(u32::try_from(dropped).unwrap_or(u32::MAX));
        }
        self.found.excluded_in.push(left_out);
    }

    /// Decodes a function. Returns false if its range holds more than code.
    fn decode(&mut self, function: &Function, number: u32) -> bool {
        let bytes = self.image.function_bytes(function);
        let padding = padding_start(bytes);
        self.text.begin(bytes.len());
        self.slots.begin();
        let mut frame = Frame::Unasked;
        let mut decoder = Decoder::with_ip(64, bytes, function.start.0, DecoderOptions::NONE);
        while decoder.can_decode() {
            let offset = decoder.position();
            if offset >= padding {
                break;
            }
            decoder.decode_out(&mut self.raw);
            if self.raw.is_invalid() {
                return false;
            }
            let end = offset + self.raw.len();
            if !self
                .text
                .instruction(offset, bytes.get(offset..end).unwrap_or_default())
            {
                return false;
            }
            if matches!(self.raw.op0_kind(), OpKind::NearBranch64) {
                let target = self.raw.near_branch64();
                if function.contains(Svma(target)) {
                    self.text.branch(target - function.start.0);
                }
            }
            match self.role(function, number, &mut frame) {
                Role::Irrelevant => {}
                Role::Excluded(reason) => self.count(reason),
                Role::Site(site) => self.found.sites.push(site),
            }
        }
        self.stack_accesses(function, number, &mut frame);
        self.text.branches_fit(bytes)
    }

    /// Decides about the accesses to the frame, now that all of the function is known: those
    /// to slots whose address was taken are sites like any other.
    fn stack_accesses(&mut self, function: &Function, number: u32, frame: &mut Frame) {
        let slots = std::mem::take(&mut self.slots);
        let lent = slots.lent(|ip| self.top(function, frame, ip));
        let mut is_lent = lent.into_iter();
        let mut added = false;
        for raw in slots.accesses() {
            if !is_lent.next().unwrap_or(false) {
                self.count(Excluded::Stack);
                continue;
            }
            match Self::site(raw, number) {
                Ok(site) => {
                    self.found.sites.push(site);
                    added = true;
                }
                Err(reason) => self.count(reason),
            }
        }
        if added {
            let start = self
                .found
                .sites
                .partition_point(|site| site.function < number);
            if let Some(sites) = self.found.sites.get_mut(start..) {
                sites.sort_unstable_by_key(|site| site.svma);
            }
        }
        self.slots = slots;
    }

    fn count(&mut self, reason: Excluded) {
        if let Some(slot) = REASONS.iter().position(|r| *r == reason)
            && let Some(count) = self.counts.get_mut(slot)
        {
            *count += 1;
        }
    }

    fn role(&mut self, function: &Function, number: u32, frame: &mut Frame) -> Role {
        let raw = &self.raw;
        let explicit = (0..raw.op_count()).any(|i| raw.op_kind(i) == OpKind::Memory);
        if !explicit && !raw.is_string_instruction() {
            if raw.is_stack_instruction() {
                return Role::Excluded(Excluded::PushPopCall);
            }
            if self.fixed {
                self.note_immediate();
            }
            if takes_address(&self.raw) {
                self.slots.take(&self.raw);
            }
            return match self.raw.mnemonic() {
                Mnemonic::Mfence | Mnemonic::Lfence | Mnemonic::Sfence => {
                    Role::Excluded(Excluded::NoData)
                }
                Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => {
                    Role::Excluded(Excluded::Unsupported)
                }
                _ => Role::Irrelevant,
            };
        }
        if explicit {
            self.note_reference();
            // By far the most common case, and the base register is enough to see it.
            let base = self.raw.memory_base();
            if base == iced_x86::Register::RSP
                || (base == iced_x86::Register::RBP && self.rbp_is_frame(function, frame))
            {
                if takes_address(&self.raw) {
                    self.slots.take(&self.raw);
                }
                if self.raw.mnemonic() == Mnemonic::Lea {
                    return Role::Excluded(Excluded::NoData);
                }
                self.slots.access(&self.raw);
                return Role::Irrelevant;
            }
        }
        let instruction = Instruction::explain(self.raw);
        if let Some(access) = instruction.sampled_access()
            && !instruction.locked()
            && let Some(reason) = self.excluded_operand(&access.operand)
        {
            return Role::Excluded(reason);
        }
        match Self::site(&self.raw, number) {
            Ok(site) => Role::Site(site),
            Err(reason) => Role::Excluded(reason),
        }
    }

    /// The site at an instruction, wherever its operand is.
    fn site(raw: &iced_x86::Instruction, number: u32) -> Result<Site, Excluded> {
        let instruction = Instruction::explain(*raw);
        let site = |size: u32, kind| Site {
            svma: Svma(instruction.address()),
            function: number,
            size: u16::try_from(size).unwrap_or(0),
            kind,
        };
        if let Some(gather) = instruction.gather() {
            return Ok(site(u32::from(gather.element), gather.kind));
        }
        if instruction.unsupported() {
            return Err(Excluded::Unsupported);
        }
        let access = instruction.sampled_access().ok_or(Excluded::NoData)?;
        if instruction.locked() {
            return Err(Excluded::Locked);
        }
        Ok(site(access.size, access.kind))
    }

    fn excluded_operand(&self, operand: &Operand) -> Option<Excluded> {
        if operand.segment != SegmentBase::Flat {
            return Some(Excluded::ThreadLocal);
        }
        let address = operand.constant()?;
        if self.layout.bare && self.raw.flow_control() != FlowControl::Next {
            // Without section headers, PLT stubs look like ordinary code. What they
            // jump through is the GOT.
            return Some(Excluded::GotOrRelro);
        }
        if self.layout.in_got(address) || self.image.is_relro(Svma(address)) {
            return Some(Excluded::GotOrRelro);
        }
        if self.kernel.is_some_and(|k| k.is_read_only(address)) {
            return Some(Excluded::ReadOnly);
        }
        let segment = self.image.segment_at(Svma(address))?;
        (!segment.writable).then_some(Excluded::ReadOnly)
    }

    fn rbp_is_frame(&mut self, function: &Function, frame: &mut Frame) -> bool {
        let top = self.top(function, frame, self.raw.ip());
        matches!(top, Some(Top::FromRbp(_)))
    }

    /// Where the top of the frame is at an instruction, if that is known.
    fn top(&mut self, function: &Function, frame: &mut Frame, ip: u64) -> Option<Top> {
        if let Some(orc) = self.orc {
            return orc.top(ip);
        }
        if matches!(frame, Frame::Unasked) {
            *frame = match self.rules.tops(function.start.0) {
                Some(tops) => Frame::Told(tops),
                None if sets_up_rbp(self.image.function_bytes(function)) => Frame::AtRbp,
                None => Frame::Unknown,
            };
        }
        match frame {
            Frame::Told(tops) => tops.at(ip),
            // Above it are the saved rbp and the return address.
            Frame::AtRbp => Some(Top::FromRbp(Some(16))),
            Frame::Unknown | Frame::Unasked => None,
        }
    }

    /// Records an operand that points into code: its target is data or a function.
    fn note_reference(&mut self) {
        let raw = &self.raw;
        // With an index but no base, the displacement is a table's address.
        let based =
            raw.memory_base() != iced_x86::Register::None && !raw.is_ip_rel_memory_operand();
        if based || raw.memory_segment() == iced_x86::Register::FS {
            return;
        }
        let address = raw.memory_displacement64();
        if self.layout.region_at(address).is_some() {
            let reads = raw.mnemonic() != Mnemonic::Lea && raw.mnemonic() != Mnemonic::Nop;
            self.found.references.push((address, reads));
        }
    }

    /// Records an immediate that may be a pointer into code.
    fn note_immediate(&mut self) {
        let raw = &self.raw;
        let address = match (raw.op1_kind(), raw.op0_kind()) {
            (OpKind::Immediate32 | OpKind::Immediate32to64, _) => u64::from(raw.immediate32()),
            (OpKind::Immediate64, _) => raw.immediate64(),
            _ => return,
        };
        if raw.mnemonic() == Mnemonic::Mov && self.layout.region_at(address).is_some() {
            self.found.references.push((address, false));
        }
    }
}

/// Whether a function without an unwind entry starts by setting up rbp as frame pointer.
fn sets_up_rbp(bytes: &[u8]) -> bool {
    let body = bytes
        .strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa])
        .unwrap_or(bytes);
    // push rbp; mov rbp, rsp, in either encoding
    body.starts_with(&[0x55, 0x48, 0x89, 0xe5]) || body.starts_with(&[0x55, 0x48, 0x8b, 0xec])
}

/// How many instructions in PLT stubs have a memory operand.
pub(super) fn count_stub_accesses(image: &Image) -> u64 {
    let mut count = 0;
    for region in image.layout().code.iter().filter(|r| r.stub.is_some()) {
        let len = usize::try_from(region.range.end - region.range.start).unwrap_or(0);
        let bytes = image.bytes_at(Svma(region.range.start), len);
        let bytes = bytes.unwrap_or_default();
        let decoder = Decoder::with_ip(64, bytes, region.range.start, DecoderOptions::NONE);
        count += decoder
            .into_iter()
            .filter(|raw| !raw.is_invalid() && raw.mnemonic() != Mnemonic::Nop)
            .filter(|raw| (0..raw.op_count()).any(|i| raw.op_kind(i) == OpKind::Memory))
            .count() as u64;
    }
    count
}
