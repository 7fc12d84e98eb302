//! Recognises a read-modify-write that consists of several instructions: a load, a
//! computation, and a store to the same operand.
//!
//! Unoptimised code does every `x++` this way, and even reloads the pointer to `x` for the
//! store. So registers and memory operands get value numbers along straight-line code: two
//! operands are the same if their addresses have the same numbers, and a stored value comes
//! from a load if the load is among its ancestors. Stores through other operands are assumed
//! not to alias, which is reasonable over so few instructions.

use crate::{Flow, Image, Instruction, Operand, SegmentBase};
use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register as Named};
use redhanded_model::{AccessKind, Svma};
use std::collections::{HashMap, VecDeque};

/// How many instructions there may be from the load to the store.
const REACH: usize = 8;

impl Image {
    /// Whether the instruction at `site` is one half of an update: a load whose
    /// value is changed and stored back to the same place within a few
    /// instructions, or that store.
    #[must_use]
    pub fn half_of_update(&self, site: Svma) -> bool {
        let Some(function) = self.function_at(site) else {
            return false;
        };
        // Twice as far back as the load may be, since its address was loaded before it.
        let mut window = VecDeque::with_capacity(3 * REACH + 1);
        let mut position = None;
        for raw in self.instructions(function) {
            match position {
                None if raw.ip() > site.0 => return false,
                None => {
                    if window.len() > 2 * REACH {
                        window.pop_front();
                    }
                }
                Some(at) if window.len() > at + REACH => break,
                Some(_) => {}
            }
            window.push_back(Instruction::explain(raw));
            if raw.ip() == site.0 {
                position = Some(window.len() - 1);
            }
        }
        position.is_some_and(|at| is_half(window.make_contiguous(), at))
    }
}

/// The same over decoded instructions: whether the one at index `at` is half of
/// an update.
fn is_half(window: &[Instruction], at: usize) -> bool {
    let Some(site) = window.get(at) else {
        return false;
    };
    if site.locked() || site.flow() != Flow::Next {
        return false;
    }
    let straight = |i: &Instruction| i.flow() == Flow::Next;
    let (before, from) = window.split_at(at);
    let start = at - before.iter().rev().take_while(|i| straight(i)).count();
    let end = at + from.iter().take_while(|i| straight(i)).count();
    let Some(run) = window.get(start..end) else {
        return false;
    };
    let at = at - start;
    let mut numbering = Numbering::default();
    let mut factory = InstructionInfoFactory::new();
    let effects: Vec<Effect> = run
        .iter()
        .enumerate()
        .map(|(index, instruction)| numbering.step(index, instruction, &mut factory))
        .collect();
    let pair = |load: usize, store: usize| match (effects.get(load), effects.get(store)) {
        (Some(Effect::Load(from)), Some(Effect::Store(to, ancestors))) => {
            from == to && ancestors & bit(load) != 0
        }
        _ => false,
    };
    (at + 1..=at + REACH).any(|store| pair(at, store))
        || (at.saturating_sub(REACH)..at).any(|load| pair(load, at))
}

/// The bit of the load at `index` in a set of ancestors.
fn bit(index: usize) -> u64 {
    u32::try_from(index).map_or(0, |index| 1u64.checked_shl(index).unwrap_or(0))
}

/// What an instruction does to one memory operand.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Effect {
    None,
    Load(SymbolicAddress),
    /// With the set of loads that its value comes from.
    Store(SymbolicAddress, u64),
}

/// An address in terms of value numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct SymbolicAddress {
    base: u32,
    index: u32,
    scale: u8,
    displacement: u64,
    segment: SegmentBase,
    bit: u32,
}

/// A value. Equal numbers mean equal values.
#[derive(Clone, Copy, Debug)]
struct Value {
    number: u32,
    ancestors: u64,
}

/// What computes a value: the operation, its constants and its inputs.
type Computation = (iced_x86::Code, u64, u64, Vec<u32>, usize);

#[derive(Default)]
struct Numbering {
    registers: HashMap<Named, Value>,
    memory: HashMap<SymbolicAddress, Value>,
    computed: HashMap<Computation, u32>,
    last: u32,
}

/// Stands for the flags, since no instruction uses register none.
const FLAGS: Named = Named::None;

impl Numbering {
    fn fresh(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn register(&mut self, register: Named) -> Value {
        if let Some(value) = self.registers.get(&register) {
            return *value;
        }
        let value = Value {
            number: self.fresh(),
            ancestors: 0,
        };
        self.registers.insert(register, value);
        value
    }

    fn place(&mut self, raw: &iced_x86::Instruction, operand: &Operand) -> SymbolicAddress {
        let mut number = |register: Named| match register {
            Named::None | Named::RIP | Named::EIP => 0,
            register => self.register(register.full_register()).number,
        };
        SymbolicAddress {
            base: number(raw.memory_base()),
            index: number(raw.memory_index()),
            scale: operand.scale,
            displacement: operand.displacement,
            segment: operand.segment,
            bit: if operand.bit.is_some() {
                number(raw.op1_register())
            } else {
                0
            },
        }
    }

    /// Processes one instruction.
    fn step(
        &mut self,
        index: usize,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Effect {
        let raw = instruction.raw();
        let access = instruction
            .sampled_access()
            .filter(|_| raw.op_kinds().any(|kind| kind == OpKind::Memory))
            .copied();
        let place = access.map(|access| self.place(raw, &access.operand));
        let used: Vec<_> = factory.info(raw).used_registers().to_vec();
        let (mut inputs, mut ancestors, mut stored) = (Vec::new(), 0, 0);
        for register in used.iter().filter(|used| reads(used.access())) {
            let full = register.register().full_register();
            let value = self.register(full);
            inputs.push(value.number);
            ancestors |= value.ancestors;
            let address = [raw.memory_base(), raw.memory_index()]
                .iter()
                .any(|r| r.full_register() == full);
            if !address || raw.op1_register().full_register() == full {
                stored |= value.ancestors;
            }
        }
        if raw.rflags_read() != 0 {
            let flags = self.register(FLAGS);
            inputs.push(flags.number);
            ancestors |= flags.ancestors;
            stored |= flags.ancestors;
        }
        let mut loaded = None;
        if let (Some(access), Some(place)) = (access, place)
            && access.kind.reads()
        {
            let cell = self.memory.get(&place).copied().unwrap_or(Value {
                number: 0,
                ancestors: 0,
            });
            let number = match cell.number {
                0 => self.fresh(),
                number => number,
            };
            let cell = Value {
                number,
                ancestors: cell.ancestors,
            };
            self.memory.insert(place, cell);
            inputs.push(number);
            ancestors |= cell.ancestors | bit(index);
            stored |= cell.ancestors;
            loaded = Some(number);
        }
        let constants = (constant(raw), shape(raw));
        for (result, register) in used.iter().filter(|used| writes(used.access())).enumerate() {
            let number = match (raw.mnemonic(), loaded) {
                // A plain load gives the number of the value in memory.
                (Mnemonic::Mov, Some(number)) if register.register().size() >= 4 => number,
                (Mnemonic::Mov, None) if is_copy(raw) => inputs.first().copied().unwrap_or(0),
                _ => self.compute((raw.code(), constants.0, constants.1, inputs.clone(), result)),
            };
            let full = register.register().full_register();
            self.registers.insert(full, Value { number, ancestors });
        }
        if raw.rflags_modified() != 0 {
            let number = self.fresh();
            self.registers.insert(FLAGS, Value { number, ancestors });
        }
        let (Some(access), Some(place)) = (access, place) else {
            return Effect::None;
        };
        if access.kind.writes() {
            let number = if raw.mnemonic() == Mnemonic::Mov && raw.op1_kind() == OpKind::Register {
                self.register(raw.op1_register().full_register()).number
            } else {
                self.fresh()
            };
            let value = Value {
                number,
                ancestors: stored,
            };
            self.memory.insert(place, value);
        }
        match access.kind {
            AccessKind::Read => Effect::Load(place),
            AccessKind::Write => Effect::Store(place, stored),
            // Not half of an update but all of it.
            AccessKind::Update => Effect::None,
        }
    }

    fn compute(&mut self, computation: Computation) -> u32 {
        if let Some(number) = self.computed.get(&computation) {
            return *number;
        }
        let number = self.fresh();
        self.computed.insert(computation, number);
        number
    }
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// A move between whole registers.
fn is_copy(raw: &iced_x86::Instruction) -> bool {
    raw.op1_kind() == OpKind::Register && raw.op0_register().size() == 8
}

/// The instruction's immediate.
fn constant(raw: &iced_x86::Instruction) -> u64 {
    (0..raw.op_count())
        .find_map(|operand| raw.try_immediate(operand).ok())
        .unwrap_or(0)
}

/// The part of an address computation that is not in registers.
fn shape(raw: &iced_x86::Instruction) -> u64 {
    raw.memory_displacement64()
        .wrapping_mul(16)
        .wrapping_add(u64::from(raw.memory_index_scale()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions of `code`, one `bytes ; text` to a line; the site's line
    /// starts with `>`.
    #[track_caller]
    fn check(code: &str, expect: bool) {
        let mut window = Vec::new();
        let mut site = None;
        let mut address = 0x1000;
        for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (hex, text) = line.split_once(';').unwrap();
            if let Some(_site) = hex.strip_prefix('>') {
                site = Some(window.len());
            }
            let bytes: Vec<u8> = hex
                .trim_start_matches('>')
                .split_whitespace()
                .map(|byte| u8::from_str_radix(byte, 16).unwrap())
                .collect();
            let instruction = Instruction::decode(&bytes, address).unwrap();
            assert_eq!(instruction.text(), text.trim());
            address = instruction.next();
            window.push(instruction);
        }
        assert_eq!(is_half(&window, site.unwrap()), expect, "{code}");
    }

    #[test]
    fn load_change_and_store_of_one_operand() {
        check(
            ">8b 07     ; mov eax, dword ptr [rdi]
              83 c0 01  ; add eax, 1
              89 07     ; mov dword ptr [rdi], eax",
            true,
        );
        check(
            " 8b 07     ; mov eax, dword ptr [rdi]
              83 c0 01  ; add eax, 1
             >89 07     ; mov dword ptr [rdi], eax",
            true,
        );
        // Through another register and a byte of it.
        check(
            ">0f b6 07  ; movzx eax, byte ptr [rdi]
              83 c8 04  ; or eax, 4
              89 c2     ; mov edx, eax
              88 17     ; mov byte ptr [rdi], dl",
            true,
        );
    }

    #[test]
    fn rip_relative_operands_are_the_same_by_their_address() {
        check(
            ">8b 05 00 10 00 00 ; mov eax, dword ptr [0x2006]
              83 c0 01          ; add eax, 1
              89 05 f7 0f 00 00 ; mov dword ptr [0x2006], eax",
            true,
        );
        check(
            ">8b 05 00 10 00 00 ; mov eax, dword ptr [0x2006]
              83 c0 01          ; add eax, 1
              89 05 fb 0f 00 00 ; mov dword ptr [0x200a], eax",
            false,
        );
    }

    #[test]
    fn another_value_stored_is_no_update() {
        check(
            ">8b 07     ; mov eax, dword ptr [rdi]
              89 37     ; mov dword ptr [rdi], esi",
            false,
        );
        check(
            ">8b 07          ; mov eax, dword ptr [rdi]
              b8 05 00 00 00 ; mov eax, 5
              89 07          ; mov dword ptr [rdi], eax",
            false,
        );
    }

    #[test]
    fn a_changed_address_register_is_another_operand() {
        check(
            ">8b 07       ; mov eax, dword ptr [rdi]
              48 83 c7 04 ; add rdi, 4
              89 07       ; mov dword ptr [rdi], eax",
            false,
        );
    }

    #[test]
    fn a_pointer_loaded_again_is_the_same_operand() {
        check(
            " 48 8b 45 f8 ; mov rax, qword ptr [rbp-8]
             >8b 40 08    ; mov eax, dword ptr [rax+8]
              8d 50 01    ; lea edx, [rax+1]
              48 8b 45 f8 ; mov rax, qword ptr [rbp-8]
              89 50 08    ; mov dword ptr [rax+8], edx",
            true,
        );
        // From elsewhere it is not.
        check(
            " 48 8b 45 f8 ; mov rax, qword ptr [rbp-8]
             >8b 40 08    ; mov eax, dword ptr [rax+8]
              8d 50 01    ; lea edx, [rax+1]
              48 8b 45 f0 ; mov rax, qword ptr [rbp-0x10]
              89 50 08    ; mov dword ptr [rax+8], edx",
            false,
        );
    }

    #[test]
    fn calls_branches_and_distance_end_the_search() {
        check(
            ">8b 07          ; mov eax, dword ptr [rdi]
              e8 00 00 00 00 ; call 0x1007
              89 07          ; mov dword ptr [rdi], eax",
            false,
        );
        check(
            ">8b 07          ; mov eax, dword ptr [rdi]
              74 02          ; je 0x1006
              89 07          ; mov dword ptr [rdi], eax",
            false,
        );
        let far = format!(
            ">8b 07 ; mov eax, dword ptr [rdi]\n{}89 07 ; mov dword ptr [rdi], eax",
            "90 ; nop\n".repeat(REACH)
        );
        check(&far, false);
    }

    #[test]
    fn a_whole_update_is_not_half_of_one() {
        check(">83 07 01 ; add dword ptr [rdi], 1", false);
        check(
            ">f0 0f c1 07 ; lock xadd dword ptr [rdi], eax
              89 07       ; mov dword ptr [rdi], eax",
            false,
        );
    }
}
