//! The virtual processor: decodes an instruction, lets the real processor compute it or does
//! it here, and keeps memory and control flow to itself.

mod control;
mod decode;
mod gather;
mod masked;
mod misc;
mod operand;
mod space;
mod stack;
mod string;

pub(crate) use decode::{Stubs, decode_at};
pub(crate) use space::{Access, Space, Written};

use crate::native::{Native, Raised, rflags};
use crate::outcome::{End, Fault};
use crate::state::{RSP, State, flag};
use decode::{Code, Decoded, Kind};
use serde::{Deserialize, Serialize};

/// How often a repeated string instruction repeats in one step.
const REPEATS: u64 = 256;

/// Whose code runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Mode {
    /// A program's.
    User,
    /// A kernel's: its interrupt and access-control flags are simulated.
    Kernel,
}

/// What an instruction that was held back has still to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// One virtual processor over one memory. The registers of the thread that runs are in
/// `native.file`, apart from those here.
pub(crate) struct Machine<'a> {
    pub space: Space<'a>,
    native: &'a mut Native,
    stubs: &'a mut Stubs,
    code: Code,
    mode: Mode,
    ip: u64,
    fs_base: u64,
    gs_base: u64,
    /// Where `rsp` was lowest since a thread was loaded.
    pub lowest_stack: u64,
    /// Where `rsp` was after the thread last returned from a function.
    pub returned_to: u64,
    /// The functions that the thread has called and not left.
    pub calls: Vec<u64>,
    /// How many more steps a repeated string instruction may take.
    repeats: u64,
}

impl<'a> Machine<'a> {
    pub fn new(space: Space<'a>, native: &'a mut Native, stubs: &'a mut Stubs, mode: Mode) -> Self {
        Self {
            space,
            native,
            stubs,
            code: Code::default(),
            mode,
            ip: 0,
            fs_base: 0,
            gs_base: 0,
            lowest_stack: u64::MAX,
            returned_to: 0,
            calls: Vec::new(),
            repeats: 0,
        }
    }

    /// Goes on with this thread.
    pub fn load(&mut self, state: &State) {
        self.native.load(state);
        self.ip = state.ip;
        self.fs_base = state.fs_base;
        self.gs_base = state.gs_base;
    }

    /// Gives the thread's registers back.
    pub fn store(&self, state: &mut State) {
        self.native.store(state);
        state.ip = self.ip;
        state.fs_base = self.fs_base;
        state.gs_base = self.gs_base;
    }

    pub const fn ip(&self) -> u64 {
        self.ip
    }

    /// The general-purpose registers and the flags.
    pub fn general(&self) -> (&[u64; 16], u64) {
        (&self.native.file.general, self.native.file.flags)
    }

    /// Runs one instruction. With `synchronising`, also one that would end the region.
    /// An error leaves the thread before the instruction.
    pub fn step(&mut self, synchronising: bool) -> Result<(), End> {
        let index = self.decoded()?;
        let decoded = &self.code.entries[index];
        if decoded.locked && !synchronising {
            return Err(End::Locked);
        }
        let Kind::Native(built) = decoded.kind else {
            let decoded = decoded.clone();
            self.repeats = REPEATS;
            return self.special(&decoded);
        };
        let next = decoded.next;
        let mut pointer = std::ptr::null_mut();
        if let Some(operand) = &decoded.operand {
            let file = &*self.native.file;
            let address = operand.address(&file.general, self.fs_base, self.gs_base);
            if address % 4096 + operand.size as u64 > 4096 {
                let decoded = decoded.clone();
                return self.apart(&decoded, address);
            }
            pointer = match self.space.in_place(address, operand.write) {
                Ok(pointer) => pointer,
                Err(_) if decoded.masked => {
                    let decoded = decoded.clone();
                    return self.apart(&decoded, address);
                }
                Err(end) => return Err(end),
            };
            if operand.read {
                self.space.note(address, operand.size, false);
            }
            if operand.write {
                self.space.note(address, operand.size, true);
            }
        }
        self.native.run(built.stub, pointer).map_err(raised)?;
        let file = &mut *self.native.file;
        file.flags = (file.flags & !built.flags) | (file.flags_out & built.flags);
        self.lowest_stack = self.lowest_stack.min(file.general[RSP]);
        self.ip = next;
        Ok(())
    }

    /// Runs one instruction of a thread that nobody else runs with: what would only order its
    /// accesses does nothing. `undefined` are the flags that no manual says anything of.
    pub fn step_alone(&mut self, undefined: &mut u64) -> Result<(), End> {
        let index = self.decoded()?;
        let i = &self.code.entries[index].instruction;
        let (modified, now) = (i.rflags_modified(), i.rflags_undefined());
        let next = i.next_ip();
        match self.step(true) {
            Err(End::Fence) => self.ip = next,
            other => other?,
        }
        *undefined = *undefined & !rflags(modified) | rflags(now);
        Ok(())
    }

    /// Whether the next instruction is one that repeats, and that a step may leave in the middle.
    pub fn is_at_repeated(&mut self) -> bool {
        self.decoded().is_ok_and(|index| {
            let i = &self.code.entries[index].instruction;
            i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix())
        })
    }

    /// Runs an instruction on a copy of its operand, and writes that back.
    fn apart(&mut self, decoded: &Decoded, address: u64) -> Result<(), End> {
        if let Some(pending) = self.on_copy(decoded, address)? {
            self.commit(&pending)?;
        }
        Ok(())
    }

    /// Runs an instruction on a copy of its operand. What it writes there is left to do.
    fn on_copy(&mut self, decoded: &Decoded, address: u64) -> Result<Option<Pending>, End> {
        let (Kind::Native(built), Some(operand)) = (&decoded.kind, &decoded.operand) else {
            return Err(End::Unsupported("held instruction".into()));
        };
        let mut copy = [0; 64];
        let copy = &mut copy[..operand.size];
        let whole = self
            .space
            .check(address, operand.size, operand.write)
            .and_then(|()| self.space.peek(address, copy));
        match whole {
            Ok(()) => {}
            Err(_) if decoded.masked => return self.masked(decoded, address),
            Err(end) => return Err(end),
        }
        self.native.scratch(address)[..operand.size].copy_from_slice(copy);
        let pointer = self.native.scratch(address).as_mut_ptr();
        self.native.run(built.stub, pointer).map_err(raised)?;
        let file = &mut *self.native.file;
        file.flags = (file.flags & !built.flags) | (file.flags_out & built.flags);
        self.lowest_stack = self.lowest_stack.min(file.general[RSP]);
        self.ip = decoded.next;
        if operand.read {
            self.space.note(address, operand.size, false);
        }
        Ok(operand.write.then(|| Pending {
            address,
            bytes: self.native.scratch(address)[..operand.size].to_vec(),
        }))
    }

    /// Writes what an instruction had still to write.
    pub fn commit(&mut self, pending: &Pending) -> Result<(), End> {
        self.space.write(pending.address, &pending.bytes)
    }

    /// The explicit operand of the next instruction, if that reads and writes it and is not
    /// locked: where, and how many bytes.
    pub fn next_update(&mut self) -> Option<(u64, usize)> {
        let index = self.decoded().ok()?;
        let decoded = &self.code.entries[index];
        let operand = decoded.operand.as_ref()?;
        let splits = matches!(decoded.kind, Kind::Native(_))
            && !decoded.locked
            && operand.read
            && operand.write;
        splits.then(|| {
            let general = &self.native.file.general;
            let address = operand.address(general, self.fs_base, self.gs_base);
            (address, operand.size)
        })
    }

    /// The explicit operand of the next instruction, if that writes it and is not locked: where,
    /// and how many bytes.
    pub fn next_store(&mut self) -> Option<(u64, usize)> {
        let index = self.decoded().ok()?;
        let decoded = &self.code.entries[index];
        let operand = decoded.operand.as_ref()?;
        let stores = matches!(decoded.kind, Kind::Native(_)) && !decoded.locked && operand.write;
        stores.then(|| {
            let general = &self.native.file.general;
            let address = operand.address(general, self.fs_base, self.gs_base);
            (address, operand.size)
        })
    }

    /// Runs the next instruction, for which [`Self::next_update`] gave something, up to its
    /// write.
    pub fn step_held(&mut self) -> Result<Option<Pending>, End> {
        let index = self.decoded()?;
        let decoded = self.code.entries[index].clone();
        let operand = decoded.operand.as_ref();
        let operand = operand.ok_or_else(|| End::Unsupported("held instruction".into()))?;
        let general = &self.native.file.general;
        let address = operand.address(general, self.fs_base, self.gs_base);
        self.on_copy(&decoded, address)
    }

    /// Whether the next instruction is locked.
    pub fn is_at_locked(&mut self) -> bool {
        let index = self.decoded();
        index.is_ok_and(|index| self.code.entries[index].locked)
    }

    fn decoded(&mut self) -> Result<usize, End> {
        if self.space.code_changed {
            self.code.forget();
            self.space.code_changed = false;
        }
        if let Some(index) = self.code.find(self.ip) {
            return Ok(index);
        }
        let (bytes, length) = self.space.code(self.ip)?;
        let decoded = self
            .stubs
            .decode(self.native, self.mode, self.ip, &bytes[..length]);
        match decoded {
            Ok(decoded) => Ok(self.code.insert(self.ip, decoded)),
            // All stubs are gone, and with them what was decoded.
            Err(decode::AreaFull) => {
                self.code.forget();
                self.native.clear();
                self.stubs.forget();
                let decoded = self
                    .stubs
                    .decode(self.native, self.mode, self.ip, &bytes[..length]);
                let decoded = decoded.map_err(|_| End::Unsupported("code area".into()))?;
                Ok(self.code.insert(self.ip, decoded))
            }
        }
    }

    fn set_flags(&mut self, mask: u64, value: u64) {
        let flags = &mut self.native.file.flags;
        *flags = (*flags & !mask) | (value & mask);
    }

    fn has_flag(&self, bit: u64) -> bool {
        self.native.file.flags & bit != 0
    }

    /// Sets the flags as a subtraction of `size` bytes does.
    fn compare(&mut self, a: u64, b: u64, size: usize) {
        let bits = size as u32 * 8;
        let mask = u64::MAX >> (64 - bits);
        let (a, b) = (a & mask, b & mask);
        let difference = a.wrapping_sub(b) & mask;
        let sign = 1 << (bits - 1);
        let mut value = 0;
        for (set, bit) in [
            (a < b, flag::CF),
            ((difference as u8).count_ones().is_multiple_of(2), flag::PF),
            ((a ^ b ^ difference) & 0x10 != 0, flag::AF),
            (difference == 0, flag::ZF),
            (difference & sign != 0, flag::SF),
            ((a ^ b) & (a ^ difference) & sign != 0, flag::OF),
        ] {
            if set {
                value |= bit;
            }
        }
        self.set_flags(flag::STATUS, value);
    }
}

fn raised(raised: Raised) -> End {
    match raised {
        Raised::Arithmetic => End::Fault(Fault::Arithmetic),
        Raised::Protection => End::Fault(Fault::Protection),
        Raised::Invalid => End::Unsupported("unknown to this processor".into()),
    }
}
