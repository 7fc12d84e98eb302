//! Vector reads of string functions: which of the bytes they were asked for. Needs gcc.

use redhanded_detect::confirm;
use redhanded_image::Image;
use redhanded_model::{
    AccessKind, Avma, Bytes, Hit, Loss, ModuleId, Region, Register, Registers, SpaceId, Svma,
    TaskId, ThreadName, Vectors, WindowEnd, WindowId, WindowRecord,
};
use redhanded_target::{Inspect, Module};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Each reads a vector and looks for a byte in it; memcpy only moves it.
const SOURCE: &str = r#"
.intel_syntax noprefix
.macro reads name, from
    .type \name, @function
    .globl \name
    \name:
        pxor xmm0, xmm0
        movdqu xmm1, [\from]
        pcmpeqb xmm0, xmm1
        pmovmskb eax, xmm0
        ret
    .size \name, .-\name
.endm
reads strlen rdi
reads __strcmp_sse2 rsi
reads __memchr_sse2 rdi
reads strspn rdi
reads memrchr rdi
reads wcslen rdi
reads memcpy rsi
reads bcmp rdi
.type strstr, @function
.globl strstr
strstr:
    vmovdqu8 xmm1 {k1}{z}, [rdi]
    ret
.size strstr, .-strstr
.type masked, @function
.globl masked
masked:
    vmovdqu8 xmm1 {k1}{z}, [rdi]
    ret
.size masked, .-masked
.type aligned, @function
strnlen:
    .type strnlen, @function
    .globl strnlen
    and rdi, -16
    movdqa xmm1, [rdi]
    ret
    .size strnlen, .-strnlen
.section .note.GNU-stack,""
"#;

/// Two strings, each with something behind it in the same 16 bytes.
const FIRST: u64 = 0x5000;
const SECOND: u64 = 0x6000;

/// What is looked for in the first.
const NEEDLE: u64 = 0x7000;
const SET: u64 = 0x8000;
/// Two wide characters, of which the first has zeros.
const WIDE: u64 = 0x9000;

struct Stopped {
    modules: Vec<Arc<Module>>,
}

impl Inspect for Stopped {
    fn modules(&self) -> &[Arc<Module>] {
        &self.modules
    }
    fn space_of(&self, _task: TaskId) -> SpaceId {
        SpaceId::default()
    }
    fn read(&mut self, _space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        let memory: &[u8] = match address.0 & !0xfff {
            FIRST => b"equal,1\0neighbour",
            SECOND => b"equal,2\0neighbour",
            NEEDLE => b"ual\0............",
            SET => b"aequ\0...........",
            WIDE => b"a\0\0\0\0\x04\0\0\0\0\0\0neighbour",
            _ => {
                let image = self.modules[0].image.as_ref().unwrap();
                let bytes = image.bytes_at(Svma(address.0), buffer.len());
                let bytes = bytes.filter(|bytes| bytes.len() == buffer.len());
                return bytes.map(|bytes| buffer.copy_from_slice(bytes)).is_some();
            }
        };
        let start = (address.0 & 0xfff) as usize;
        let bytes = memory.get(start..start + buffer.len());
        bytes.map(|bytes| buffer.copy_from_slice(bytes)).is_some()
    }
    fn instruction_before(&mut self, _space: SpaceId, address: Avma) -> Option<Avma> {
        let image = self.modules[0].image.as_ref()?;
        Some(Avma(image.instruction_before(Svma(address.0))?.0))
    }
    fn stack(&mut self, _task: TaskId, registers: &Registers) -> Vec<Avma> {
        vec![Avma(registers.rip)]
    }
    fn region(&mut self, _space: SpaceId, _address: Avma) -> Region {
        Region::Heap
    }
    fn thread_name(&mut self, _task: TaskId) -> ThreadName {
        ThreadName::default()
    }
    fn vectors(&mut self, _task: TaskId) -> Option<Box<Vectors>> {
        let mut vectors = Vectors::default();
        vectors.masks[1] = u64::MAX;
        Some(Box::new(vectors))
    }
}

fn program() -> Stopped {
    let folder = tempfile::tempdir().unwrap();
    let [source, built] = ["source.S", "built"].map(|name| folder.path().join(name));
    std::fs::write(&source, SOURCE).unwrap();
    let status = Command::new("gcc")
        .args(["-shared", "-nostdlib", "-o"])
        .args([&built, &source])
        .status();
    assert!(status.unwrap().success());
    let image = Image::open(&built).unwrap();
    Stopped {
        modules: vec![Arc::new(Module {
            id: ModuleId(0),
            space: SpaceId::default(),
            name: "program".to_owned(),
            bias: 0,
            range: 0..0x5000,
            image: Some(Arc::new(image)),
        })],
    }
}

/// Whether the vector read of a function with these arguments counts against a write to the
/// byte at `at`.
fn counts(program: &mut Stopped, function: &str, arguments: [u64; 3], at: u64) -> bool {
    let image = program.modules[0].image.clone().unwrap();
    let mut functions = image.functions().as_slice().iter();
    let function = functions.find(|f| f.name.as_deref() == Some(function));
    let mut pc = function.unwrap().start;
    let read = loop {
        let instruction = image.instruction_at(pc).unwrap();
        if !instruction.accesses().is_empty() || instruction.gather().is_some() {
            break instruction;
        }
        pc = Svma(instruction.next());
    };
    let mut registers = Registers {
        rip: read.next(),
        ..Registers::default()
    };
    for (register, value) in [Register::Rdi, Register::Rsi, Register::Rdx]
        .into_iter()
        .zip(arguments)
    {
        registers.set(register, value);
    }
    let bytes = Bytes::new(Avma(at), 1);
    let record = WindowRecord {
        id: WindowId(1),
        space: SpaceId::default(),
        module: ModuleId(0),
        svma: Svma(0),
        pc: Avma(0xdead_0000),
        task: TaskId(1),
        registers: Registers::default(),
        bytes,
        kind: AccessKind::Write,
        before: vec![0],
        after: vec![0],
        hit: None,
        end: WindowEnd::Collided,
        held: Duration::ZERO,
        losses: Vec::new(),
    };
    let hit = Hit {
        task: TaskId(2),
        registers,
        watched: bytes,
        bytes_now: vec![0],
    };
    match confirm(program, &record, &hit) {
        Ok(confirmed) => {
            assert_eq!(confirmed.kind, AccessKind::Read);
            true
        }
        Err(loss) => {
            assert_eq!(loss, Loss::OverRead, "{function:?} {at:#x}");
            false
        }
    }
}

#[test]
fn a_string_is_read_up_to_its_zero_and_no_further() {
    let mut program = program();
    let arguments = [FIRST, 0, 0];
    assert!(counts(&mut program, "strlen", arguments, FIRST));
    assert!(
        counts(&mut program, "strlen", arguments, FIRST + 7),
        "its zero"
    );
    assert!(!counts(&mut program, "strlen", arguments, FIRST + 8));
}

#[test]
fn a_comparison_stops_at_the_first_difference() {
    let mut program = program();
    let arguments = [FIRST, SECOND, 0];
    let name = "__strcmp_sse2";
    assert!(counts(&mut program, name, arguments, SECOND + 6));
    assert!(!counts(&mut program, name, arguments, SECOND + 7));
}

#[test]
fn a_comparison_of_bytes_stops_at_a_difference_and_at_its_count_only() {
    let mut program = program();
    assert!(counts(&mut program, "bcmp", [FIRST, SECOND, 16], FIRST + 6));
    assert!(!counts(
        &mut program,
        "bcmp",
        [FIRST, SECOND, 16],
        FIRST + 7
    ));
    assert!(!counts(
        &mut program,
        "bcmp",
        [FIRST, FIRST, 12],
        FIRST + 12
    ));
    assert!(counts(&mut program, "bcmp", [FIRST, FIRST, 12], FIRST + 11));
}

#[test]
fn a_search_stops_at_its_byte_and_at_its_count() {
    let mut program = program();
    let name = "__memchr_sse2";
    let found = [FIRST, u64::from(b','), 16];
    assert!(counts(&mut program, name, found, FIRST + 5));
    assert!(!counts(&mut program, name, found, FIRST + 6));
    let missing = [FIRST, u64::from(b'#'), 12];
    assert!(counts(&mut program, name, missing, FIRST + 11));
    assert!(!counts(&mut program, name, missing, FIRST + 12));
}

#[test]
fn a_copy_reads_what_it_was_asked_for() {
    let mut program = program();
    assert!(counts(
        &mut program,
        "memcpy",
        [SECOND, FIRST, 16],
        FIRST + 15
    ));
}

#[test]
fn an_element_of_a_masked_vector_is_read_with_the_others() {
    let mut program = program();
    let arguments = [FIRST, NEEDLE, 0];
    assert!(!counts(&mut program, "strstr", arguments, FIRST + 9));
    assert!(counts(&mut program, "masked", arguments, FIRST + 9));
}

#[test]
fn a_search_for_a_string_stops_behind_it() {
    let mut program = program();
    let arguments = [FIRST, NEEDLE, 0];
    assert!(counts(&mut program, "strstr", arguments, FIRST));
    assert!(counts(&mut program, "strstr", arguments, FIRST + 4));
    assert!(!counts(&mut program, "strstr", arguments, FIRST + 5));
}

#[test]
fn a_span_stops_at_the_first_byte_that_is_not_in_the_set() {
    let mut program = program();
    let arguments = [FIRST, SET, 0];
    assert!(
        counts(&mut program, "strspn", arguments, FIRST + 4),
        "what ends it"
    );
    assert!(!counts(&mut program, "strspn", arguments, FIRST + 5));
}

#[test]
fn a_search_from_the_end_stops_before_its_start() {
    let mut program = program();
    let found = [FIRST, u64::from(b','), 8];
    assert!(counts(&mut program, "memrchr", found, FIRST + 7));
    assert!(counts(&mut program, "memrchr", found, FIRST + 5));
    assert!(!counts(&mut program, "memrchr", found, FIRST + 4));
    assert!(!counts(&mut program, "memrchr", found, FIRST + 8));
}

#[test]
fn wide_characters_are_four_bytes() {
    let mut program = program();
    let arguments = [WIDE, 0, 0];
    for (at, expect) in [(0, true), (7, true), (8, true), (11, true), (12, false)] {
        let counts = counts(&mut program, "wcslen", arguments, WIDE + at);
        assert_eq!(counts, expect, "{at}");
    }
}

#[test]
fn what_cannot_be_told_is_a_loss() {
    let mut program = program();
    // What strspn looks for cannot be read; where strnlen began is not known any more.
    assert!(!counts(&mut program, "strspn", [FIRST, 0, 0], FIRST + 1));
    assert!(!counts(&mut program, "strnlen", [FIRST, 16, 0], FIRST));
}
