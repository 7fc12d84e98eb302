//! Rows that do not hold yet; not part of the tests until they do.

use crate::endings::with_core;
use crate::row::Row;
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use std::fs;

#[test]
fn what_is_ignored_stays_ignored() {
    Row::new("ignored").same_as_alone(&[], 0);
}

#[test]
fn clones_with_and_without_the_same_memory() {
    Row::new("clones").same_as_alone(&[], 0);
}

#[test]
fn clones_no_tracer_is_told_of() {
    Row::new("clones").same_as_alone(&["untraced"], 0);
}

#[test]
fn a_core_holds_the_programs_own_code() {
    let row = Row::new("endings");
    for who in ["leader", "thread"] {
        let (_, core) = with_core(&row, "unlimited", &row.observed(&[who, "crash", "0"]));
        match core {
            Some(core) => no_breakpoint_in(&core, &fs::read(&row.program).unwrap()),
            None => println!("skipped: no core file is left here"),
        }
    }
}

/// Where a core holds the program's code at all, it is as in its file.
#[track_caller]
fn no_breakpoint_in(core: &[u8], program: &[u8]) {
    let program = object::File::parse(program).unwrap();
    let text = program.section_by_name(".text").unwrap().data().unwrap();
    let core = object::File::parse(core).unwrap();
    for segment in core.segments() {
        let SegmentFlags::Elf { p_flags } = segment.flags() else {
            panic!("no ELF core");
        };
        let bytes = segment.data().unwrap();
        // The start of the text is found by what no site is in: its first
        // instructions are those of _start.
        let start = bytes.windows(16).position(|part| part == &text[..16]);
        if let (true, Some(at)) = (p_flags & PF_X != 0, start) {
            let there = &bytes[at..at + text.len()];
            let other = there.iter().zip(text).position(|(a, b)| a != b);
            assert_eq!(other, None, "the text differs in the core");
        }
    }
}
