//! A distribution's kernel says where its frames are twice, in ORC and in DWARF,
//! made by different tools. Where both speak of C, they must say the same.

use super::row::{Base, Layout, Row, Rule, Saved, What};
use super::*;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EndianSlice, LittleEndian, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow,
};
use redhanded_model::Svma;

#[path = "../../../tests/installed/mod.rs"]
mod installed;

#[test]
fn agrees_with_dwarf() {
    for kernel in installed::kernels() {
        compare(&Image::open(&kernel.vmlinux.unwrap()).unwrap());
    }
}

fn compare(image: &Image) {
    let orc = image.orc().unwrap();
    let bytes = image.section(".debug_frame").unwrap();
    let frame = DebugFrame::new(&bytes, LittleEndian);
    let bases = BaseAddresses::default();
    let mut entries = frame.entries(&bases);
    let mut context = UnwindContext::new();
    let (mut functions, mut instructions, mut pushes) = (0, 0, 0);
    while let Some(entry) = entries.next().unwrap() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let entry = partial.parse(DebugFrame::cie_from_offset).unwrap();
        let stated = Svma(entry.initial_address());
        let is_init = image.kernel_text().unwrap().excluded(stated.0).is_some();
        if is_init || image.function_at(stated).is_none() {
            continue;
        }
        functions += 1;
        let mut rows = entry.rows(&frame, &bases, &mut context).unwrap();
        while let Some(row) = rows.next_row().unwrap() {
            let mut at = row.start_address();
            while at < row.end_address().min(entry.end_address()) {
                let Some(rule) = orc.rule_at(at) else { break };
                // Assembly that changes the stack, of which DWARF knows nothing.
                let switches = rule.base == Base::Top;
                let turns = at == row.start_address() && is_about_to_align(&rule, row);
                let same = is_same(&rule, row, &frame);
                pushes += u32::from(!same && has_pushed(&rule, row));
                assert!(
                    same || switches || turns || has_pushed(&rule, row),
                    "{at:#x} in {:?}: {rule:?}, {row:?}",
                    image.function_at(Svma(at))
                );
                instructions += 1;
                let Some(instruction) = image.instruction_at(Svma(at)) else {
                    break;
                };
                at = instruction.next();
            }
        }
    }
    println!("{functions} functions, {instructions} instructions compared");
    assert!(functions > 30_000 && instructions > 1_000_000);
    assert!(pushes < 100, "{pushes} instructions after a push");
}

/// After `lea 0x8(%rsp),%r10` both are the same for one instruction, which aligns the
/// stack: DWARF goes over to the other register before it, ORC after it.
fn is_about_to_align(rule: &Rule, row: &UnwindTableRow<usize>) -> bool {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return false;
    };
    *register != X86_64::RSP && *offset == 0 && rule.base == Base::Register(X86_64::RSP)
}

/// Whether something is on the stack of which DWARF knows nothing: a few functions
/// have assembly that pushes, in order to return as from an interrupt.
fn has_pushed(rule: &Rule, row: &UnwindTableRow<usize>) -> bool {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return false;
    };
    *register == X86_64::RSP
        && rule.base == Base::Register(X86_64::RSP)
        && i64::from(rule.offset) > *offset
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

fn is_same(rule: &Rule, row: &UnwindTableRow<usize>, frame: &DebugFrame<Slice<'_>>) -> bool {
    let stack = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            rule.base == Base::Register(*register) && i64::from(rule.offset) == *offset
        }
        CfaRule::Expression(expression) => {
            // DW_OP_breg6 offset, of one byte with its sign in bit 6; DW_OP_deref
            let bytes = expression.get(frame).unwrap();
            let [0x76, offset @ 0..0x80, 0x06] = *bytes.0.slice() else {
                return false;
            };
            let offset = i32::from((offset << 1).cast_signed() >> 1);
            rule.base == Base::Behind(X86_64::RBP) && i32::from(rule.offset) == offset
        }
    };
    let rbp = match (rule.rbp, row.register(X86_64::RBP)) {
        (Saved::Kept, None | Some(RegisterRule::SameValue)) => true,
        (Saved::FromStack(offset), Some(RegisterRule::Offset(other))) => i64::from(offset) == other,
        // Relative to rbp itself, which a stack that was aligned differs from.
        (Saved::FromRbp(0), Some(RegisterRule::Expression(_))) => true,
        _ => false,
    };
    rule.what == What::Call && stack && rbp
}

#[test]
fn layouts_are_told_by_what_most_rows_say() {
    let layout = |bits: &[u16]| {
        Layout::of(bits.iter().map(|bits| {
            let [low, high] = bits.to_le_bytes();
            Row::read([8, 0, 0, 0, low, high])
        }))
    };
    assert_eq!(layout(&[5, 5, 0x15, 0, 0x205, 0x400]), Layout::First);
    assert_eq!(layout(&[5, 5, 0x15, 0, 0x205, 0x800]), Layout::Second);
    assert_eq!(layout(&[5, 5, 0x15, 0, 0x505]), Layout::Second);
    assert_eq!(layout(&[0x205, 0x215, 0, 0xc05, 0x100]), Layout::Third);
    assert_eq!(layout(&[0x203, 0x283, 0, 0xc03, 0x284]), Layout::Fourth);
    // A module without calls has nothing that could be mistaken.
    assert_eq!(layout(&[0, 0]), Layout::First);
}

#[test]
fn rows_of_unknown_kinds_say_nothing() {
    let rule = |layout: Layout, bits: u16| {
        let [low, high] = bits.to_le_bytes();
        layout.rule(Row::read([8, 0, 0, 0, low, high]))
    };
    assert!(rule(Layout::First, 0x005).is_some());
    for bits in [0x000, 0x305, 0x00a, 0x025] {
        assert_eq!(rule(Layout::First, bits), None, "{bits:#x}");
    }
    for bits in [0x000, 0x705, 0x20b, 0x255] {
        assert_eq!(rule(Layout::Third, bits), None, "{bits:#x}");
    }
}
