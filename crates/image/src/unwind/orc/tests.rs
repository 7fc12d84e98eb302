//! A distribution's kernel says where its frames are twice, in ORC and in DWARF,
//! made by different tools. Where both speak of C, they must say the same.

use super::row::{Base, Layout, Row, Rule, Saved, What};
use super::*;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EndianSlice, LittleEndian, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow,
};
use redhanded_model::Svma;

/// Every so many functions one is compared.
const STEP: usize = 61;

#[test]
fn agrees_with_dwarf() {
    let Some(folder) = std::env::var_os("REDHANDED_KERNELS") else {
        println!("skipped: REDHANDED_KERNELS names no folder with a kernel");
        return;
    };
    let boot = std::path::Path::new(&folder).join("usr/lib/debug/boot");
    for entry in std::fs::read_dir(boot).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("vmlinux-") {
            compare(&Image::open(&entry.path()).unwrap());
        }
    }
}

fn compare(image: &Image) {
    let orc = image.orc().unwrap();
    let bytes = image.section(".debug_frame").unwrap();
    let frame = DebugFrame::new(&bytes, LittleEndian);
    let bases = BaseAddresses::default();
    let mut entries = frame.entries(&bases);
    let mut context = UnwindContext::new();
    let (mut number, mut functions, mut instructions) = (0, 0, 0);
    while let Some(entry) = entries.next().unwrap() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let entry = partial.parse(DebugFrame::cie_from_offset).unwrap();
        number += 1;
        let stated = Svma(entry.initial_address());
        let is_init = image.kernel_text().unwrap().excluded(stated.0).is_some();
        if number % STEP != 0 || is_init || image.function_at(stated).is_none() {
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
                assert!(
                    switches || is_same(&rule, row, &frame),
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
    assert!(functions > 300 && instructions > 10_000);
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

fn is_same(rule: &Rule, row: &UnwindTableRow<usize>, frame: &DebugFrame<Slice<'_>>) -> bool {
    let stack = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            rule.base == Base::Register(*register) && i64::from(rule.offset) == *offset
        }
        CfaRule::Expression(expression) => {
            // DW_OP_breg6 -8; DW_OP_deref
            let bytes = expression.get(frame).unwrap();
            rule.base == Base::Behind(X86_64::RBP)
                && rule.offset == -8
                && bytes.0.slice() == [0x76, 0x78, 0x06]
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
