//! Takes back the access of a thread that stands after it.
//!
//! A register that the instruction overwrites without reading need not be known: running
//! the instruction again gives the same. What it both reads and overwrites has to be solved
//! from what is there now. Each solution is tested: run from there, the instruction must
//! lead to exactly the state that the thread was found in.

use crate::machine::{Machine, decode_at};
use crate::outcome::Failure;
use crate::ranges::Ranges;
use crate::scene::Start;
use crate::state::{RAX, RDI, RSI, RSP, State, flag};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

type Undone<T> = Result<T, String>;

/// The thread's registers before its access. The machine's memory becomes what it was then,
/// except for bytes of which that is not known: nobody may read those before they are written.
pub(crate) fn before_access(
    machine: &mut Machine<'_>,
    start: &Start,
) -> Result<(State, Ranges), Failure> {
    match start {
        Start::Before(state) => Ok((state.clone(), Ranges::default())),
        Start::After {
            state,
            ip,
            address,
            from,
            before,
        } => Access {
            after: state,
            ip: *ip,
            address: *address,
            from: *from,
            before,
        }
        .undo(machine)
        .map_err(Failure::CannotUndo),
    }
}

struct Access<'a> {
    after: &'a State,
    ip: u64,
    address: u64,
    from: u64,
    before: &'a [u8],
}

impl Access<'_> {
    fn undo(&self, machine: &mut Machine<'_>) -> Undone<(State, Ranges)> {
        let code = machine.space.code(self.ip);
        let (bytes, length) = code.map_err(|end| format!("its code cannot be read: {end:?}"))?;
        let i = decode_at(self.ip, &bytes[..length]);
        if i.has_rep_prefix() || i.has_repne_prefix() {
            return Err("a repeated string instruction does not say how far it was".into());
        }
        let (memory, unknown) = self.former_memory(machine, &i)?;
        let candidate = self.former_registers(machine, &i)?;

        // The test.
        let now = self.read(machine, memory.len())?;
        let set = |machine: &mut Machine<'_>, bytes: &[u8]| {
            let set = machine.space.set_original(self.address, bytes);
            set.map_err(|end| format!("its memory cannot be read: {end:?}"))
        };
        set(machine, &memory)?;
        machine.load(&candidate);
        machine.space.log.clear();
        let ran = machine.step(true);
        let mut state = State::default();
        machine.store(&mut state);
        let log = std::mem::take(&mut machine.space.log);
        let written = machine.space.take_written();
        ran.map_err(|end| format!("its access cannot be run again: {end:?}"))?;
        if !is_same(&state, self.after) {
            return Err("running it again does not give the registers it was found with".into());
        }
        for access in log.iter().filter(|a| a.write) {
            for at in (access.address..).take(access.size as usize) {
                let byte = written
                    .get(&crate::memory::page_of(at))
                    .map(|page| page.0[(at % crate::memory::PAGE) as usize]);
                let known = at.wrapping_sub(self.address) < memory.len() as u64;
                let found = if known {
                    Some(now[(at - self.address) as usize])
                } else {
                    let original = machine.space.original(crate::memory::page_of(at));
                    original.map(|page| page[(at % crate::memory::PAGE) as usize])
                };
                if byte != found {
                    return Err("running it again does not give the memory it left".into());
                }
                // What a push overwrote was dead.
                if !known && at >= self.after.general[RSP].wrapping_add(8) {
                    return Err("what its write overwrote is not known".into());
                }
            }
        }
        Ok((candidate, unknown))
    }

    fn read(&self, machine: &mut Machine<'_>, size: usize) -> Undone<Vec<u8>> {
        let mut bytes = vec![0; size];
        let read = machine.space.peek(self.address, &mut bytes);
        read.map_err(|end| format!("its memory cannot be read: {end:?}"))?;
        Ok(bytes)
    }

    fn number(&self, machine: &mut Machine<'_>, size: usize) -> Undone<u64> {
        Ok(number(&self.read(machine, size.min(8))?))
    }

    /// What the bytes from `address` on held before, and which of them are not known.
    fn former_memory(
        &self,
        machine: &mut Machine<'_>,
        i: &Instruction,
    ) -> Undone<(Vec<u8>, Ranges)> {
        let size = i.memory_size().size();
        let operand = (0..i.op_count()).find(|n| i.op_kind(*n) == OpKind::Memory);
        let access = operand.map(|n| InstructionInfoFactory::new().info(i).op_access(n));
        let reads = matches!(access, Some(OpAccess::Read | OpAccess::CondRead));
        let skipped = usize::try_from(self.from.wrapping_sub(self.address));
        let skipped = skipped.ok().filter(|skipped| *skipped < size);
        if access == Some(OpAccess::Write)
            && let Some(skipped) = skipped
            && (skipped > 0 || self.before.len() < size)
            && !self.before.is_empty()
        {
            // A plain store overwrites all of it, whatever it was.
            let mut bytes = self.read(machine, size)?;
            let known = skipped..size.min(skipped + self.before.len());
            bytes[known.clone()].copy_from_slice(&self.before[..known.len()]);
            let at = |offset: usize| self.address.wrapping_add(offset as u64);
            let unknown = [(at(0), at(known.start)), (at(known.end), at(size))];
            let unknown = unknown.into_iter().filter(|(start, end)| start < end);
            return Ok((bytes, Ranges::new(unknown.collect())));
        }
        let before = match skipped {
            Some(0) => self.before,
            _ => &[],
        };
        if access.is_none() || reads || before.len() >= size || size > 8 {
            let most = before.len().min(64);
            return Ok((before[..most].to_vec(), Ranges::default()));
        }
        // An update that can be computed backwards.
        let now = self.number(machine, size)?;
        let value = |n| self.value(i, n);
        let former = match i.mnemonic() {
            Mnemonic::Add => now.wrapping_sub(value(1)?),
            Mnemonic::Sub => now.wrapping_add(value(1)?),
            Mnemonic::Xor => now ^ value(1)?,
            Mnemonic::Inc => now.wrapping_sub(1),
            Mnemonic::Dec => now.wrapping_add(1),
            Mnemonic::Not => !now,
            Mnemonic::Neg => now.wrapping_neg(),
            // The register now holds what the memory held.
            Mnemonic::Xchg | Mnemonic::Xadd => value(1)?,
            Mnemonic::Cmpxchg if self.after.flags & flag::ZF != 0 => self.after.general[RAX],
            _ => return Err("what its write overwrote is not known".into()),
        };
        let mut bytes = former.to_le_bytes()[..size].to_vec();
        // What is known was seen.
        bytes[..before.len()].copy_from_slice(before);
        Ok((bytes, Ranges::default()))
    }

    /// An operand's value after the access.
    fn value(&self, i: &Instruction, operand: u32) -> Undone<u64> {
        match i.op_kind(operand) {
            OpKind::Register if i.op_register(operand).is_gpr() => {
                let register = i.op_register(operand);
                let whole = self.after.general[register.full_register().number() & 15];
                let high = matches!(
                    register,
                    Register::AH | Register::BH | Register::CH | Register::DH
                );
                Ok(if high { whole >> 8 } else { whole })
            }
            OpKind::Register | OpKind::Memory => Err("it has an operand of another kind".into()),
            _ => Ok(i.immediate(operand)),
        }
    }

    fn former_registers(&self, machine: &mut Machine<'_>, i: &Instruction) -> Undone<State> {
        let mut state = self.after.clone();
        state.ip = self.ip;
        if i.rflags_read() & i.rflags_modified() != 0 {
            return Err("it reads flags and overwrites them".into());
        }
        let pushed = i.stack_pointer_increment();
        state.general[RSP] = state.general[RSP].wrapping_sub(i64::from(pushed).cast_unsigned());
        if i.is_string_instruction() {
            return self.before_string(i, state);
        }
        let mut factory = InstructionInfoFactory::new();
        let used = factory.info(i).used_registers();
        let written = used.iter().filter(|u| {
            matches!(
                u.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            )
        });
        for register in written.map(|u| u.register()) {
            let full = register.full_register();
            if full == Register::RSP && pushed != 0 {
                continue;
            }
            let reads = |u: &&iced_x86::UsedRegister| {
                u.register().full_register() == full
                    && matches!(
                        u.access(),
                        OpAccess::Read
                            | OpAccess::CondRead
                            | OpAccess::ReadWrite
                            | OpAccess::ReadCondWrite
                    )
            };
            if used.iter().any(|u| reads(&u)) {
                self.solve(machine, i, full, &mut state)?;
            }
        }
        Ok(state)
    }

    /// Finds the former value of a register that the instruction reads and overwrites.
    fn solve(
        &self,
        machine: &mut Machine<'_>,
        i: &Instruction,
        full: Register,
        state: &mut State,
    ) -> Undone<()> {
        let addresses = [i.memory_base(), i.memory_index()].map(Register::full_register);
        let memory = (0..i.op_count()).find(|n| i.op_kind(*n) == OpKind::Memory);
        if !full.is_gpr() {
            return Err("it overwrites a vector that it reads".into());
        }
        let now = self.after.general[full.number() & 15];
        let slot = &mut state.general[full.number() & 15];
        if addresses.contains(&full) && memory.is_some() {
            *slot = self.by_address(i, full)?;
            return Ok(());
        }
        // An update of a register by memory, of its whole width.
        let Some(n) = memory else {
            return Err("it overwrites a register that it reads".into());
        };
        let size = i.memory_size().size();
        let other = i.op_register(1 - n.min(1)).size();
        if i.op_count() != 2 || size != other || size < 4 {
            return self.narrow_update(i, full);
        }
        let m = self.number(machine, size)?;
        let former = match i.mnemonic() {
            Mnemonic::Add if n == 1 => now.wrapping_sub(m),
            Mnemonic::Sub if n == 1 => now.wrapping_add(m),
            Mnemonic::Xor if n == 1 => now ^ m,
            Mnemonic::Xchg => m,
            Mnemonic::Xadd => m.wrapping_sub(now),
            Mnemonic::Cmpxchg if self.after.flags & flag::ZF != 0 => now,
            // A move on condition leaves the flags, so it does the same again.
            name if format!("{name:?}").starts_with("Cmov") => now,
            _ => return Err("it overwrites a register that it reads".into()),
        };
        *slot = if size == 4 {
            former & 0xffff_ffff
        } else {
            former
        };
        Ok(())
    }

    fn narrow_update(&self, i: &Instruction, full: Register) -> Undone<()> {
        // A part of the register is written, and the rest is only kept: `mov al, [m]`.
        let written = i.op0_register();
        let moves = matches!(
            i.mnemonic(),
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx
        );
        if moves && written.full_register() == full {
            Ok(())
        } else {
            Err("it overwrites a register that it reads".into())
        }
    }

    /// A register that addressed the access and was overwritten: `mov rax, [rax+8]`.
    fn by_address(&self, i: &Instruction, full: Register) -> Undone<u64> {
        let unsolvable = || Err("it overwrites a register that it addresses with".to_owned());
        if i.memory_base().size() == 4 || i.memory_index().size() == 4 {
            return unsolvable();
        }
        let mut rest = self.address.wrapping_sub(i.memory_displacement64());
        rest = rest.wrapping_sub(match i.memory_segment() {
            Register::FS => self.after.fs_base,
            Register::GS => self.after.gs_base,
            _ => 0,
        });
        let value = |r: Register| self.after.general[r.number() & 15];
        let scale = u64::from(i.memory_index_scale());
        let (base, index) = (i.memory_base(), i.memory_index());
        let divisor = match (base == full, index == full) {
            (true, true) => scale + 1,
            (true, false) => {
                if index != Register::None {
                    rest = rest.wrapping_sub(value(index).wrapping_mul(scale));
                }
                1
            }
            (false, true) => {
                if base != Register::None {
                    rest = rest.wrapping_sub(value(base));
                }
                scale
            }
            (false, false) => return unsolvable(),
        };
        // With a scale, only an index that is small enough has one solution.
        if divisor != 1 && (!rest.is_multiple_of(divisor) || rest >= 1 << 48) {
            return unsolvable();
        }
        Ok(rest / divisor)
    }

    fn before_string(&self, i: &Instruction, mut state: State) -> Undone<State> {
        let size = i.memory_size().size() as u64;
        let step = if state.flags & flag::DF != 0 {
            size
        } else {
            size.wrapping_neg()
        };
        let kinds = || (0..i.op_count()).map(|n| i.op_kind(n));
        if kinds().any(|k| k == OpKind::MemorySegRSI) {
            state.general[RSI] = state.general[RSI].wrapping_add(step);
        }
        if kinds().any(|k| k == OpKind::MemoryESRDI) {
            state.general[RDI] = state.general[RDI].wrapping_add(step);
        }
        Ok(state)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Whether a thread stands the same. The resume flag comes and goes with debug exceptions.
fn is_same(a: &State, b: &State) -> bool {
    const RESUME: u64 = 1 << 16;
    let mut b = b.clone();
    b.flags = b.flags & !RESUME | a.flags & RESUME;
    *a == b
}
