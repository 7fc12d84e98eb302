//! Loads whose value is dropped: on some path nothing uses it, or a conditional move chooses
//! between it and another one.
//!
//! Compilers make such loads where the source reads one of several objects, or reads on a
//! condition. What is used on every path is in the source, however early it is loaded.

use crate::{Flow, Image, Instruction};
use iced_x86::{
    ConditionCode, FlowControl, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess,
    Register,
};
use redhanded_model::{Marking, SourceEvidence, Svma};
use std::collections::{HashMap, HashSet};

/// Longer functions are not examined.
const MAX_INSTRUCTIONS: usize = 20_000;
/// How many steps are made from a load.
const MAX_STEPS: usize = 2000;

/// Some registers, one bit for each: the sixteen general ones, then the vectors.
type Registers = u64;

const RAX: Registers = 1;
/// Where a function returns its result.
const RESULTS: Registers = RAX | 1 << 2 | 1 << 16 | 1 << 17;
/// Where arguments may be: rax, rcx, rdx, rsi, rdi, r8, r9 and the first eight vectors.
const ARGUMENTS: Registers = 0b11_1100_0111 | 0xff << 16;
/// What a called function keeps: rbx, rsp, rbp and r12 to r15.
const KEPT: Registers = 0b1111_0000_0011_1000;

fn bit(register: Register) -> Registers {
    let full = register.full_register();
    if full.is_gpr64() {
        1 << full.number()
    } else if full.is_zmm() {
        1 << (16 + full.number())
    } else {
        0
    }
}

/// What becomes of a value in one instruction.
enum Fate {
    /// It is looked at.
    Used,
    /// A conditional move may drop it.
    Chosen,
    /// It is in these registers, or was changed there.
    In(Registers),
}

impl Image {
    /// Whether the load at `svma` may be one that the source does not make: its value may be
    /// dropped, and the source that is known does not name the object in any case.
    #[must_use]
    pub fn reads_for_nothing(&self, svma: Svma, source: &SourceEvidence) -> bool {
        let in_doubt = match source.marking {
            Marking::Plain => !self.debug().names_object(svma, source),
            Marking::Unknown { .. } => true,
            Marking::Atomic { .. } | Marking::Volatile { .. } => false,
        };
        // What an update stores back is in the source if the store is.
        if !in_doubt || self.half_of_update(svma) {
            return false;
        }
        let Some(function) = self.function_at(svma) else {
            return false;
        };
        let code: Vec<_> = self
            .instructions(function)
            .take(MAX_INSTRUCTIONS + 1)
            .collect();
        code.len() <= MAX_INSTRUCTIONS && may_drop(&code, svma.0)
    }
}

fn may_drop(code: &[iced_x86::Instruction], load: u64) -> bool {
    let numbers: HashMap<u64, usize> = code
        .iter()
        .enumerate()
        .map(|(number, raw)| (raw.ip(), number))
        .collect();
    let mut factory = InstructionInfoFactory::new();
    let Some((start, raw)) = numbers
        .get(&load)
        .and_then(|number| Some((*number, code.get(*number)?)))
    else {
        return false;
    };
    let (_, loaded) = uses(factory.info(raw));
    // What a string instruction reads goes into memory, or is compared.
    if loaded == 0 || raw.is_string_instruction() || raw.flow_control() != FlowControl::Next {
        return false;
    }
    let mut seen = HashSet::new();
    let mut left = vec![(start + 1, loaded)];
    while let Some((number, held)) = left.pop() {
        let Some(raw) = code.get(number) else {
            continue;
        };
        if !seen.insert((number, held)) {
            continue;
        }
        if seen.len() > MAX_STEPS {
            return false;
        }
        let held = match fate(raw, factory.info(raw), held) {
            Fate::Used => continue,
            Fate::Chosen | Fate::In(0) => return true,
            Fate::In(held) => held,
        };
        // What leaves the function may be used there.
        match Instruction::explain(*raw).flow() {
            Flow::Next | Flow::Call(_) => left.push((number + 1, held)),
            Flow::Jump(Some(to)) => left.extend(numbers.get(&to).map(|to| (*to, held))),
            Flow::Branch(to) => {
                left.push((number + 1, held));
                left.extend(numbers.get(&to).map(|to| (*to, held)));
            }
            Flow::Return if held & RESULTS == 0 => return true,
            Flow::Return | Flow::Jump(None) | Flow::Trap => {}
        }
    }
    false
}

/// The registers that an instruction reads, and those that it writes.
fn uses(info: &InstructionInfo) -> (Registers, Registers) {
    let mut found = (0, 0);
    for used in info.used_registers() {
        let bit = bit(used.register());
        if reads(used.access()) {
            found.0 |= bit;
        }
        if writes(used.access()) {
            found.1 |= bit;
        }
    }
    found
}

const fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

const fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// What becomes of the value in the registers `held`.
fn fate(raw: &iced_x86::Instruction, info: &InstructionInfo, held: Registers) -> Fate {
    let is_call = matches!(
        raw.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    let (read, written) = uses(info);
    if is_call {
        return match held & (ARGUMENTS | read) {
            0 => Fate::In(held & KEPT),
            _ => Fate::Used,
        };
    }
    let is_conditional_move = raw.condition_code() != ConditionCode::None
        && raw.flow_control() == FlowControl::Next
        && raw.op_count() == 2;
    // One of 64 bits does not read what it may replace.
    if is_conditional_move && held & written != 0 {
        return Fate::Chosen;
    }
    if held & read == 0 {
        // A part of a register that is written leaves the rest.
        let replaced = info
            .used_registers()
            .iter()
            .filter(|used| used.access() == OpAccess::Write && used.register().size() >= 4)
            .fold(0, |all, used| all | bit(used.register()));
        return Fate::In(held & !replaced);
    }
    let address = match raw.mnemonic() {
        Mnemonic::Lea => 0,
        _ => bit(raw.memory_base()) | bit(raw.memory_index()),
    };
    let stores = info
        .used_memory()
        .iter()
        .any(|memory| writes(memory.access()));
    if held & address != 0 || stores || written == 0 {
        return Fate::Used;
    }
    if is_conditional_move {
        return Fate::Chosen;
    }
    Fate::In(held | written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::Decoder;

    /// Whether the value that the first instruction loads may be dropped.
    fn drops(hex: &str) -> bool {
        let bytes: Vec<u8> = hex
            .split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        let code: Vec<_> = Decoder::with_ip(64, &bytes, 0x1000, 0).iter().collect();
        may_drop(&code, 0x1000)
    }

    #[test]
    fn what_is_used_on_every_path_is_not_dropped() {
        for (hex, about) in [
            ("8b 07 c3", "mov eax, [rdi]; ret"),
            ("f3 a4 31 c0 c3", "rep movsb; xor eax, eax; ret"),
            ("8b 07 83 c0 01 c3", "mov eax, [rdi]; add eax, 1; ret"),
            (
                "8b 07 83 f8 03 0f 94 c0 c3",
                "mov; cmp eax, 3; sete al; ret",
            ),
            (
                "8b 07 89 06 31 c0 c3",
                "mov; mov [rsi], eax; xor eax, eax; ret",
            ),
            ("48 8b 07 8b 00 c3", "mov rax, [rdi]; mov eax, [rax]; ret"),
            (
                "8b 3f e8 00 00 00 00 31 c0 c3",
                "mov edi, [rdi]; call; xor; ret",
            ),
            (
                "8b 07 84 c9 74 02 ff c0 c3",
                "mov; test cl, cl; je; inc eax; ret",
            ),
            ("3b 07 c3", "cmp eax, [rdi]; ret"),
        ] {
            assert!(!drops(hex), "{about}");
        }
    }

    #[test]
    fn what_a_path_replaces_or_a_condition_chooses_may_be_dropped() {
        for (hex, about) in [
            (
                "8b 07 85 f6 74 02 8b 02 c3",
                "mov; test; je; mov eax, [rdx]; ret",
            ),
            ("8b 07 39 f1 0f 4f 02 c3", "mov; cmp; cmovg eax, [rdx]; ret"),
            (
                "48 8b 07 48 0f 45 02 48 83 c0 01 c3",
                "mov; cmovne rax, [rdx]; add rax, 1; ret",
            ),
            (
                "48 8b 0f 48 83 c1 01 85 f6 b8 01 00 00 00 48 0f 44 c1 c3",
                "mov rcx, [rdi]; add rcx, 1; test; mov eax, 1; cmove rax, rcx; ret",
            ),
            (
                "8b 0f 85 f6 74 02 89 0a 31 c0 c3",
                "mov ecx; test; je; mov [rdx], ecx; ret",
            ),
            ("8b 0f e8 00 00 00 00 c3 90", "mov ecx is an argument"),
            ("44 8b 1f e8 00 00 00 00 c3", "mov r11d, [rdi]; call; ret"),
        ] {
            assert_eq!(drops(hex), !about.ends_with("argument"), "{about}");
        }
    }
}
