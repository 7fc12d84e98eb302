//! What the form of an instruction and the compiler of its module say about an access.

use crate::{Image, Instruction};
use iced_x86::Mnemonic;
use redhanded_model::Form;

/// The last version of GCC that keeps a volatile access an instruction of its own. Later ones
/// can be told to combine it with arithmetic.
const LAST_GCC: u32 = 15;

/// Strings that the runtimes of other languages contain. Their compilers leave no note of
/// themselves, only that of the C compiler that built the start-up code.
const OTHER_COMPILERS: [&[u8]; 6] = [
    b"OCAMLRUNPARAM",
    b"GHCRTS",
    b"FPC 2.",
    b"FPC 3.",
    b"Go buildinf:",
    b"SBCL_HOME",
];

impl Instruction {
    /// How it accesses memory.
    #[must_use]
    pub fn form(&self) -> Form {
        if self.is_repeated() {
            return Form::Repeated;
        }
        // Element by element.
        if self.gather().is_some() {
            return Form::Wide;
        }
        let Some(access) = self.sampled_access() else {
            return Form::Unknown;
        };
        let moves = is_move(self.raw().mnemonic());
        match access.size {
            1 | 2 | 4 | 8 if moves => Form::Move,
            1 | 2 | 4 | 8 => Form::Operation,
            16 if moves => Form::Vector,
            _ => Form::Wide,
        }
    }
}

/// Whether the instruction only moves its operand. GCC extends the value of an atomic load
/// with the load itself (`movzx`).
fn is_move(mnemonic: Mnemonic) -> bool {
    let name = format!("{mnemonic:?}").to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    name.starts_with("mov") || name.starts_with("cmov") || matches!(name, "lddqu" | "xchg")
}

impl Image {
    /// The compiler of all of the module's code, if it never combines an atomic or volatile
    /// access with arithmetic in one instruction. GCC keeps each a move of its own; compilers
    /// made with LLVM do not.
    #[must_use]
    pub fn separating_compiler(&self) -> Option<&str> {
        self.code
            .separating_compiler
            .get_or_init(|| {
                let comment = self.section(".comment")?;
                let other = |mark: &&[u8]| contains(self.data(), mark);
                if self.is_kernel() || OTHER_COMPILERS.iter().any(other) {
                    return None;
                }
                only_gcc(&comment)
            })
            .as_deref()
    }
}

/// The note of GCC, if there is no other and every version is known.
fn only_gcc(comment: &[u8]) -> Option<String> {
    let mut notes = comment.split(|byte| *byte == 0).filter(|n| !n.is_empty());
    let mut last = None;
    notes.try_for_each(|note| {
        let note = std::str::from_utf8(note).ok()?;
        let version = note.strip_prefix("GCC: ")?.rsplit_once(' ')?.1;
        let major: u32 = version.split('.').next()?.parse().ok()?;
        last = Some(note);
        (major <= LAST_GCC).then_some(())
    })?;
    last.map(str::to_owned)
}

fn contains(data: &[u8], mark: &[u8]) -> bool {
    let Some(first) = mark.first() else {
        return false;
    };
    data.iter()
        .enumerate()
        .filter(|(_, byte)| *byte == first)
        .any(|(at, _)| data.get(at..at + mark.len()) == Some(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &[u8], form: Form) {
        let instruction = Instruction::decode(code, 0x1000).unwrap();
        assert_eq!(instruction.form(), form, "{}", instruction.text());
    }

    #[test]
    fn moves_and_operations() {
        check(&[0x8b, 0x07], Form::Move); // mov eax, [rdi]
        check(&[0x0f, 0xb6, 0x07], Form::Move); // movzx eax, byte ptr [rdi]
        check(&[0xc7, 0x07, 1, 0, 0, 0], Form::Move); // mov dword ptr [rdi], 1
        check(&[0xf3, 0x0f, 0x10, 0x07], Form::Move); // movss xmm0, [rdi]
        check(&[0x0f, 0x44, 0x07], Form::Move); // cmove eax, [rdi]
        check(&[0x83, 0x3f, 3], Form::Operation); // cmp dword ptr [rdi], 3
        check(&[0x03, 0x07], Form::Operation); // add eax, [rdi]
        check(&[0xff, 0x07], Form::Operation); // inc dword ptr [rdi]
    }

    #[test]
    fn vectors_and_strings() {
        check(&[0x66, 0x0f, 0x6f, 0x07], Form::Vector); // movdqa xmm0, [rdi]
        check(&[0xc5, 0xf8, 0x29, 0x07], Form::Vector); // vmovaps [rdi], xmm0
        check(&[0x66, 0x0f, 0xfe, 0x07], Form::Wide); // paddd xmm0, [rdi]
        check(&[0xc5, 0xfe, 0x6f, 0x07], Form::Wide); // vmovdqu ymm0, [rdi]
        check(&[0xf3, 0x48, 0xab], Form::Repeated); // rep stosq
        // vpgatherdd ymm0, [rdi+ymm2], ymm1
        check(&[0xc4, 0xe2, 0x75, 0x90, 0x04, 0x17], Form::Wide);
    }

    #[test]
    fn one_compiler_that_is_known_speaks_for_all_code() {
        let gcc = b"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0";
        assert!(only_gcc(gcc).is_some());
        assert!(only_gcc(b"GCC: (GNU) 16.1.0\0").is_none(), "not known");
        assert!(only_gcc(b"").is_none());
        let clang = [gcc.as_slice(), b"Debian clang version 14.0.6\0"].concat();
        assert!(only_gcc(&clang).is_none());
        let rust = [gcc.as_slice(), b"rustc version 1.90.0\0"].concat();
        assert!(only_gcc(&rust).is_none());
    }
}
