//! A stack of a kernel, made up, in each layout that the table has had: from a
//! function on an interrupt's stack to the interrupted one, through the frame
//! of an interrupt, up to the entry from user mode.

use super::build::{Built, compile, start};
use redhanded_image::{Image, Unwinder};
use redhanded_model::{Register, Registers};
use std::collections::HashMap;
use std::fmt::Write;

/// How a layout spells what a row says, above its two register numbers.
struct Layout {
    call: u16,
    registers: u16,
    pushed: u16,
    outermost: u16,
}

const LAYOUTS: [(&str, Layout); 3] = [
    (
        "first",
        Layout {
            call: 0,
            registers: 1,
            pushed: 2,
            outermost: 4,
        },
    ),
    (
        "second",
        Layout {
            call: 0,
            registers: 1 | 4,
            pushed: 2 | 4,
            outermost: 8,
        },
    ),
    (
        "third",
        Layout {
            call: 2,
            registers: 3 | 8,
            pushed: 4 | 8,
            outermost: 1,
        },
    ),
];

const DX: u16 = 2;
const BP: u16 = 4;
const SP: u16 = 5;
const R10: u16 = 6;
const BEHIND_BP: u16 = 8;
const TOP: u16 = 9;
const SAVED_AT_STACK: u16 = 1 << 4;
const SAVED_AT_BP: u16 = 4 << 4;

/// Functions of 16 bytes, and for each its row: two offsets and the bits.
fn module(layout: &Layout) -> Built {
    let call = layout.call << 8;
    let mut rows = vec![
        ("leaf", 8, 0, call | SP),
        ("on_interrupt_stack", 16, 0, call | TOP),
        ("handler", 16, -16, call | BP | SAVED_AT_STACK),
        ("interrupt", 0, 0, layout.registers << 8 | SP),
        ("aligned", -8, 0, call | BEHIND_BP | SAVED_AT_BP),
        ("prologue", 0, 0, call | R10),
        ("system_call", 0, 0, layout.registers << 8 | SP),
        ("early_entry", 8, 0, layout.pushed << 8 | DX),
        ("thread_start", 0, 0, layout.outermost << 8),
        ("unknown", 0, 0, 0),
        ("thunk", 0, 0, layout.outermost << 8),
        // What most of a kernel looks like.
        ("filler", 24, 0, call | SP),
        ("more_filler", 32, -32, call | SP | SAVED_AT_STACK),
        ("last_filler", 64, -64, call | SP | SAVED_AT_STACK),
    ];
    let mut source = String::from(".text\n");
    for (name, ..) in &rows {
        write!(
            source,
            ".globl {name}\n.type {name}, @function\n{name}: .skip 16, 0x90\n.size {name}, 16\n"
        )
        .unwrap();
    }
    source.push_str(
        ".globl __indirect_thunk_start, __indirect_thunk_end\n\
         .set __indirect_thunk_start, thunk\n.set __indirect_thunk_end, thunk + 16\n",
    );
    // As a compiler's output is: not sorted. Linking has to do it.
    rows.reverse();
    rows.swap(1, 5);
    for (name, stack, rbp, bits) in &rows {
        write!(
            source,
            ".section .orc_unwind_ip,\"a\"\n.long {name} - .\n\
             .section .orc_unwind,\"a\"\n.short {stack}, {rbp}, {bits}\n"
        )
        .unwrap();
    }
    source.push_str(".section .note.GNU-stack,\"\"\n");
    compile(&source, "module.S", &["-c"])
}

fn linked(layout: &Layout) -> Image {
    module(layout).linked(&[
        (".text", 0xffff_ffff_c010_0000),
        (".orc_unwind", 0xffff_ffff_c011_0000),
        (".orc_unwind_ip", 0xffff_ffff_c011_1000),
    ])
}

/// Memory of words, and the registers of a task.
struct Target {
    image: Image,
    words: HashMap<u64, u64>,
    registers: Registers,
}

impl Target {
    fn new(layout: &Layout) -> Self {
        Self {
            image: linked(layout),
            words: HashMap::new(),
            registers: Registers::default(),
        }
    }

    fn at(&self, function: &str) -> u64 {
        start(&self.image, function) + 5
    }

    fn put(&mut self, at: u64, words: &[u64]) {
        for (index, word) in (0..).zip(words) {
            self.words.insert(at + 8 * index, *word);
        }
    }

    fn set(&mut self, register: Register, value: u64) {
        self.registers.set(register, value);
    }

    /// The stack in names; a pc that was interrupted ends with `!`.
    fn stack(&self) -> Vec<String> {
        // A slide, as if the kernel had been loaded elsewhere.
        const SLIDE: u64 = 0x1a00_0000;
        let mut unwinder = Unwinder::new();
        unwinder.add_module(&self.image, SLIDE);
        let mut registers = self.registers;
        registers.rip += SLIDE;
        let module = 0xffff_ffff_c010_0000..0xffff_ffff_c020_0000_u64;
        let mut read = |at: u64| {
            let word = *self.words.get(&at)?;
            Some(if module.contains(&word) {
                word + SLIDE
            } else {
                word
            })
        };
        let stack = unwinder.unwind(&registers, &mut read);
        stack
            .iter()
            .map(|pc| {
                let pc = pc - SLIDE;
                let function = self
                    .image
                    .function_at(redhanded_model::Svma(pc - 1))
                    .unwrap();
                let within = pc - function.start.0;
                let name = function.name.as_deref().unwrap();
                match within {
                    5 => name.to_owned(),
                    6 => format!("{name}!"),
                    within => format!("{name}+{within}"),
                }
            })
            .collect()
    }
}

/// The registers that an interrupt saves.
fn saved(rbp: u64, pc: u64, code_segment: u64, stack: u64) -> [u64; 21] {
    let mut words = [0x5eed; 21];
    words[4] = rbp;
    words[16] = pc;
    words[17] = code_segment;
    words[19] = stack;
    words
}

const KERNEL_CODE: u64 = 0x10;
const USER_CODE: u64 = 0x33;

#[test]
fn from_an_interrupt_to_user_mode() {
    for (name, layout) in LAYOUTS {
        let mut target = Target::new(&layout);
        // The interrupt's stack lies above the task's.
        let (interrupt_stack, task) = (0xffff_c900_0020_0000, 0xffff_c900_0010_0000);
        target.registers.rip = target.at("leaf");
        target.set(Register::Rsp, interrupt_stack);
        target.set(Register::Rbp, task + 0x40);
        let [on_stack, handler, interrupt] =
            ["on_interrupt_stack", "handler", "interrupt"].map(|name| target.at(name));
        target.put(interrupt_stack, &[on_stack, task]);
        // The word at the top leads to task + 16, with the return address below.
        target.put(task + 8, &[handler]);
        // rbp + 16 is the frame of the handler; below it the return address and
        // the rbp that was saved.
        target.put(task + 0x40, &[task + 0x300, interrupt]);
        let aligned = target.at("aligned");
        target.put(
            task + 0x50,
            &saved(task + 0x300, aligned, KERNEL_CODE, task + 0x200),
        );
        // A function that aligned its stack keeps the old one's address.
        let system_call = target.at("system_call");
        target.put(task + 0x2f8, &[task + 0x408, task + 0x777]);
        target.put(task + 0x400, &[system_call]);
        target.put(task + 0x408, &saved(1, 0x40_0000, USER_CODE, 0x7ffc_0000));
        assert_eq!(
            target.stack(),
            [
                "leaf",
                "on_interrupt_stack",
                "handler",
                "interrupt",
                "aligned!",
                "system_call"
            ],
            "{name}"
        );
    }
}

#[test]
fn from_an_entry_that_has_saved_nothing_yet() {
    for (name, layout) in LAYOUTS {
        let mut target = Target::new(&layout);
        target.registers.rip = target.at("early_entry");
        target.set(Register::Rdx, 0x8000);
        target.set(Register::R10, 0x9000);
        target.set(Register::Rsp, 0x100);
        // What it interrupted finds its stack from a register that still holds.
        let [prologue, thread_start] = ["prologue", "thread_start"].map(|name| target.at(name));
        target.put(0x8008, &[prologue, KERNEL_CODE, 0, 0x8f00, 0]);
        target.put(0x8ff8, &[thread_start]);
        assert_eq!(
            target.stack(),
            ["early_entry", "prologue!", "thread_start"],
            "{name}"
        );
    }
}

#[test]
fn where_the_table_says_nothing_frame_pointers_are_followed() {
    let mut target = Target::new(&LAYOUTS[2].1);
    target.registers.rip = target.at("unknown");
    target.set(Register::Rsp, 0x8000);
    target.set(Register::Rbp, 0x8100);
    let [filler, thread_start] = ["filler", "thread_start"].map(|name| target.at(name));
    target.put(0x8000, &[1]);
    target.put(0x8100, &[0x8200, filler]);
    target.put(0x8120, &[thread_start]);
    assert_eq!(target.stack(), ["unknown", "filler", "thread_start"]);
}

#[test]
fn memory_that_cannot_be_read_or_leads_in_a_circle_ends_it() {
    for (_, layout) in LAYOUTS {
        let mut target = Target::new(&layout);
        target.registers.rip = target.at("leaf");
        target.set(Register::Rsp, 0x8000);
        assert_eq!(target.stack(), ["leaf"]);
        let on_stack = target.at("on_interrupt_stack");
        target.put(0x8000, &[on_stack, 0x7000]);
        target.put(0x7008, &[on_stack, 0x7000]);
        assert_eq!(target.stack().len(), 128);
    }
}

#[test]
fn from_a_stub_which_the_table_takes_for_the_end() {
    for (name, layout) in LAYOUTS {
        let mut target = Target::new(&layout);
        let [thunk, leaf, filler, thread_start] =
            ["thunk", "leaf", "filler", "thread_start"].map(|name| target.at(name));
        // Stopped there, and interrupted there.
        target.registers.rip = thunk;
        target.set(Register::Rsp, 0x8000);
        target.put(0x8000, &[leaf, filler, 0, 0, thread_start]);
        let to_the_end = ["thunk", "leaf", "filler", "thread_start"];
        assert_eq!(target.stack(), to_the_end, "{name}");
        target.registers.rip = target.at("interrupt");
        target.set(Register::Rsp, 0x9000);
        target.put(0x9000, &saved(0, thunk, KERNEL_CODE, 0x8000));
        assert_eq!(
            target.stack(),
            ["interrupt", "thunk!", "leaf", "filler", "thread_start"],
            "{name}"
        );
    }
}
