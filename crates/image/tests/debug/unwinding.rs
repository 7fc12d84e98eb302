//! A program single-steps itself and records its stacks; at each instruction
//! the callers must be found, in order, up to the program's start.

use super::compile::{Built, build, run, separate};
use redhanded_image::{Image, Unwinder};
use redhanded_model::{Register, Registers, Svma};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

struct Loaded {
    image: Image,
    bias: u64,
    end: u64,
}

struct Record {
    registers: Registers,
    stacks: [(u64, Vec<u8>); 2],
}

impl Record {
    fn read(&self, at: u64, modules: &[Loaded]) -> Option<u64> {
        let word = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.get(..8)?.try_into().unwrap()));
        for (start, bytes) in &self.stacks {
            let within = usize::try_from(at.wrapping_sub(*start)).unwrap();
            if let Some(bytes) = bytes.get(within..) {
                return word(bytes);
            }
        }
        // Code, which tells a signal's return.
        let module = modules.iter().find(|m| (m.bias..m.end).contains(&at))?;
        word(
            module
                .image
                .bytes_at(Svma(at.wrapping_sub(module.bias)), 8)?,
        )
    }
}

fn modules(maps: &Path) -> Vec<Loaded> {
    let mut modules: Vec<Loaded> = Vec::new();
    for line in std::fs::read_to_string(maps).unwrap().lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let Some(path) = fields.get(5).filter(|path| path.starts_with('/')) else {
            continue;
        };
        let (start, end) = fields[0].split_once('-').unwrap();
        let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        match modules
            .iter_mut()
            .find(|m| m.image.path() == Path::new(path))
        {
            Some(module) => module.end = end,
            None => {
                let image = Image::open(Path::new(path)).unwrap();
                let first = image.segments().iter().map(|s| s.svma.0).min().unwrap();
                modules.push(Loaded {
                    image,
                    bias: start - first,
                    end,
                });
            }
        }
    }
    modules
}

fn records(path: &Path) -> Vec<Record> {
    let bytes = std::fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    while !rest.is_empty() {
        let mut head = [0u64; 21];
        for word in &mut head {
            let (first, after) = rest.split_at(8);
            *word = u64::from_le_bytes(first.try_into().unwrap());
            rest = after;
        }
        let [gpr @ .., rip, first, first_len, second, second_len] = head;
        let registers = Registers {
            gpr,
            rip,
            ..Registers::default()
        };
        let (a, after) = rest.split_at(first_len as usize);
        let (b, after) = after.split_at(second_len as usize);
        rest = after;
        let stacks = [(first, a.to_vec()), (second, b.to_vec())];
        records.push(Record { registers, stacks });
    }
    records
}

/// The program's own functions on a stack, innermost first.
fn names(frames: &[u64], modules: &[Loaded], program: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for (depth, address) in frames.iter().enumerate() {
        let at = address - u64::from(depth > 0);
        let Some(module) = modules.iter().find(|m| (m.bias..m.end).contains(&at)) else {
            names.push(format!("?{at:#x}"));
            continue;
        };
        if module.image.path() != program {
            continue;
        }
        let frames = module.image.debug().frames(Svma(at - module.bias));
        names.extend(frames.last().and_then(|frame| frame.function.clone()));
    }
    names
}

/// Whether the innermost frame is found. It then ends with the address that it returns to, and
/// its caller's begins.
fn is_bounded(
    unwinder: &mut Unwinder,
    record: &Record,
    frames: &[u64],
    modules: &[Loaded],
) -> bool {
    let registers = &record.registers;
    let stack = registers.get(Register::Rsp);
    let mut frame_at = |at| unwinder.frame_at(registers, at, &mut |at| record.read(at, modules));
    let Some(own) = frame_at(stack) else {
        return false;
    };
    assert_eq!(own, registers.rip);
    assert_eq!(frame_at(stack - 8), None, "below the stack");
    let end = (stack..).step_by(8).find(|at| frame_at(*at) != Some(own));
    let end = end.unwrap();
    assert_eq!(record.read(end - 8, modules), frames.get(1).copied());
    if let Some(caller) = frame_at(end) {
        assert_eq!(Some(&(caller + 1)), frames.get(1));
    }
    true
}

fn check(options: &[&str], arguments: &[&str], prepare: impl Fn(&Built)) {
    let built = build("steps.c", options);
    prepare(&built);
    let folder = built.folder.path().canonicalize().unwrap();
    let (maps, log) = (folder.join("maps"), folder.join("records"));
    run(Command::new(folder.join("program"))
        .arg(&maps)
        .arg(&log)
        .args(arguments));
    let modules = modules(&maps);
    let mut unwinder = Unwinder::new();
    for module in &modules {
        unwinder.add_module(&module.image, module.bias);
    }
    let program = folder.join("program");
    let whole = ["compare", "leaf", "middle", "outer", "main", "_start"];
    let signalled = [
        "deeper",
        "on_signal",
        "leaf",
        "middle",
        "outer",
        "main",
        "_start",
    ];
    let mut seen = BTreeSet::new();
    let mut bounded = 0;
    for record in records(&log) {
        let mut read = |at| record.read(at, &modules);
        let frames = unwinder.unwind(&record.registers, &mut read);
        let mut names = names(&frames, &modules, &program);
        // Linkage stubs have no name of their own, or one of many.
        names.retain(|name| !name.contains("plt") && !name.starts_with('.'));
        let at = record.registers.rip;
        let right = whole.ends_with(&names.iter().map(String::as_str).collect::<Vec<_>>())
            || signalled.ends_with(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(
            right && names.len() >= 2,
            "at {at:#x}: {names:?} {frames:x?}"
        );
        seen.extend(names);
        bounded += usize::from(is_bounded(&mut unwinder, &record, &frames, &modules));
    }
    assert!(bounded > 0, "no frame was found");
    for name in whole.iter().chain(&signalled) {
        assert!(seen.contains(*name), "{name} was never on a stack");
    }
}

const LAZY: &str = "-Wl,-z,lazy";

#[test]
fn at_every_instruction_without_frame_pointers() {
    check(
        &[
            "-O2",
            "-g",
            "-fomit-frame-pointer",
            "-fno-optimize-sibling-calls",
            LAZY,
        ],
        &[],
        |_| {},
    );
}

#[test]
fn at_every_instruction_with_frame_pointers() {
    check(&["-O0", "-fno-omit-frame-pointer", LAZY], &[], |_| {});
}

#[test]
fn through_a_handler_on_another_stack() {
    check(&["-O1", "-no-pie", LAZY], &["other"], |_| {});
}

#[test]
fn without_a_search_table() {
    check(
        &["-O2", "-fno-optimize-sibling-calls", LAZY],
        &[],
        |built| {
            run(Command::new("objcopy")
                .arg("--remove-section=.eh_frame_hdr")
                .arg(&built.program));
        },
    );
}

/// No table for exceptions; the debugger's is in another file.
#[test]
fn by_the_table_of_a_separate_debug_file() {
    let options = [
        "-O2",
        "-g",
        "-fno-asynchronous-unwind-tables",
        "-fno-optimize-sibling-calls",
        LAZY,
    ];
    check(&options, &["other"], |built| {
        separate(built, "program.debug");
    });
}

#[test]
fn a_forgotten_module_is_not_used() {
    let built = build("steps.c", &["-O2", "-no-pie"]);
    let image = built.image();
    let mut unwinder = Unwinder::new();
    let main = built.symbol("main").0;
    let mut registers = Registers {
        rip: main,
        ..Registers::default()
    };
    registers.set(Register::Rsp, 0x1000);
    let mut read = |at| (at == 0x1000).then_some(main + 5);
    unwinder.add_module(&image, 0);
    assert_eq!(unwinder.unwind(&registers, &mut read), [main, main + 5]);
    unwinder.remove_module(&image, 0);
    assert_eq!(unwinder.unwind(&registers, &mut read), [main]);
}

#[test]
fn garbage_ends() {
    let built = build("steps.c", &["-O2", "-no-pie"]);
    let mut unwinder = Unwinder::new();
    unwinder.add_module(&built.image(), 0);
    let main = built.symbol("main").0;
    // Every word of memory is a return address: only the bound ends it.
    let registers = Registers {
        rip: main,
        gpr: [0x1000; 16],
        ..Registers::default()
    };
    assert!(unwinder.unwind(&registers, &mut |_| Some(main)).len() <= 128);
    // The stack would run backwards.
    let registers = Registers {
        rip: main,
        gpr: [u64::MAX - 3; 16],
        ..Registers::default()
    };
    assert!(unwinder.unwind(&registers, &mut |_| Some(main)).len() <= 2);
}
