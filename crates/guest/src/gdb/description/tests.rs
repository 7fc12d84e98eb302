use super::super::packet::encode_hex;
use super::*;
use proptest::prelude::*;

/// As QEMU's: part of it in a second document, odd sizes in between.
const FIRST: &str = r#"<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target>
    <architecture>i386:x86-64</architecture><xi:include href="core.xml"/></target>"#;

fn core() -> String {
    let mut text = String::from(
        "<!-- <reg name=\"rax\" bitsize=\"8\"/> -->\n<feature name='core'>\n\
         <flags id=\"f\" size=\"4\"><field name=\"rip\" start=\"22\" end=\"31\"/></flags>\n\
         <reg name=\"rax\" bitsize=\"64\" type=\"int64\" regnum=\"0\"/>\n",
    );
    for (name, bits) in UNDESCRIBED.into_iter().skip(1) {
        text += &format!("  <reg bitsize = '{bits}'\n name='{name}' />\n");
    }
    for (name, bits) in [
        ("fs_base", 64),
        ("gs_base", 64),
        ("st0", 80),
        ("k_gs_base", 64),
        ("xmm0", 128),
        ("cr0", 64),
        ("cr3", 64),
    ] {
        text += &format!("<reg name=\"{name}\" bitsize=\"{bits}\" type=\"x\"/>");
    }
    text
}

fn layout(documents: &[(&str, &str)]) -> Result<Layout, Unusable> {
    let mut description = Description::new();
    while let Some(wanted) = description.wanted() {
        let document = documents.iter().find(|(name, _)| *name == wanted);
        description.add(document.expect("a document that exists").1)?;
    }
    description.layout()
}

#[test]
fn finds_registers_behind_odd_sizes() {
    let layout = layout(&[("target.xml", FIRST), ("core.xml", &core())]).unwrap();
    // 16 and rip of 8 bytes, eflags and 6 segments of 4, two bases, st0.
    let kernel_gs_base = 17 * 8 + 7 * 4 + 2 * 8 + 10;
    assert_eq!(
        layout.kernel_gs_base,
        Some(RegisterSlot {
            offset: kernel_gs_base,
            size: 8
        })
    );
    assert_eq!(
        layout.cr3.map(|place| place.offset),
        Some(kernel_gs_base + 8 + 16 + 8)
    );
    assert_eq!((layout.cr4, layout.efer), (None, None));
    // Every byte is its own offset.
    let mut packet = Vec::new();
    let bytes: Vec<u8> = (0..=250).collect();
    encode_hex(&bytes, &mut packet);
    let at = |offset: u8| u64::from_le_bytes(std::array::from_fn(|i| offset + i as u8));
    let registers = layout.registers(&packet).unwrap();
    assert_eq!(registers.general.get(Register::Rax), at(0));
    assert_eq!(registers.general.get(Register::Rbx), at(8), "not rcx");
    assert_eq!(registers.general.get(Register::Rsp), at(56));
    assert_eq!(registers.general.get(Register::R15), at(120));
    assert_eq!(registers.general.rip, at(128));
    assert_eq!(registers.general.rflags, u64::from(at(136) as u32));
    assert_eq!(registers.cs, Some(at(140) as u16));
    assert_eq!(registers.gs_base, Some(at(172)));
    assert_eq!(registers.general.gs_base, at(172));
    assert_eq!(registers.kernel_gs_base, Some(at(kernel_gs_base as u8)));
    // The stub may leave out what it does not know.
    packet[2 * 172..2 * 180].fill(b'x');
    let registers = layout.registers(&packet).unwrap();
    assert_eq!((registers.gs_base, registers.general.gs_base), (None, 0));
    packet[0] = b'x';
    assert_eq!(layout.registers(&packet), None);
    assert_eq!(layout.registers(b"E14"), None);
    assert_eq!(layout.registers(b""), None);
}

#[test]
fn numbers_tell_the_order() {
    let mut text = String::new();
    for (number, (name, bits)) in UNDESCRIBED.into_iter().enumerate().rev() {
        text += &format!("<reg name=\"{name}\" bitsize=\"{bits}\" regnum=\"{number}\"/>");
    }
    let by_number = layout(&[("target.xml", &text)]).unwrap();
    let undescribed = layout(&[(
        "target.xml",
        "<target><architecture> i386:x86-64 </architecture></target>",
    )]);
    assert_eq!(Ok(by_number), undescribed);
}

#[test]
fn refuses_what_it_cannot_read() {
    let arm = "<target><architecture>aarch64</architecture></target>";
    assert_eq!(
        layout(&[("target.xml", arm)]),
        Err(Unusable::Architecture("aarch64".into()))
    );
    let narrow = "<reg name='rax' bitsize='32'/>";
    assert_eq!(
        layout(&[("target.xml", narrow)]),
        Err(Unusable::Register("rax"))
    );
    let itself = "<xi:include href='target.xml'/>";
    assert_eq!(layout(&[("target.xml", itself)]), Err(Unusable::TooLong));
    let many = "<reg name='r' bitsize='64'/>".repeat(MAX_REGISTERS + 1);
    assert_eq!(layout(&[("target.xml", &many)]), Err(Unusable::TooLong));
    let wide = "<reg name='r' bitsize='4000000000'/>";
    assert_eq!(layout(&[("target.xml", wide)]), Err(Unusable::TooLong));
}

proptest! {
    #[test]
    fn survives_any_document(
        document in "(<(reg|xi:include|architecture|!--|/)?|[ =\"'/>]|name|bitsize|regnum|href|rip|-->|[0-9]{1,11}|é){0,80}",
        packet in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut description = Description::new();
        if description.add(&document).is_ok() && let Ok(layout) = description.layout() {
            let _ = layout.registers(&packet);
        }
    }
}
