//! What a gdbstub may send: damaged conversations and descriptions of registers.

use redhanded_guest::gdb::StopReply;
use redhanded_guest::gdb::description::Description;
use redhanded_guest::gdb::packet::{Decoder, Item, decode_hex, encode, number};

use super::mutation::{Random, change};

/// Packets as stubs send them.
const PACKETS: [&str; 10] = [
    "OK",
    "E22",
    "",
    "PacketSize=1000;qXfer:features:read+;vContSupported+;multiprocess+",
    "vCont;c;C;s;S",
    "mp01.01,p01.02",
    "T05thread:p01.02;awatch:ffffffff82a079c0;",
    "T02thread:01;",
    "W00",
    "53ff00f053ff00f0c3e200f053ff00f0",
];

/// A description with a bit of everything.
const DOCUMENT: &str = r#"<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target>
<architecture>i386:x86-64</architecture><!-- <reg name="no"/> --><xi:include href="target.xml"/>
<reg name="rax" bitsize="64" type="int64" regnum="0"/><reg name="rbx" bitsize="64"/><reg name="rcx" bitsize="64"/>
<reg name="rdx" bitsize="64"/><reg name="rsi" bitsize="64"/><reg name="rdi" bitsize="64"/><reg name="rbp" bitsize="64"/>
<reg name="rsp" bitsize="64"/><reg name="r8" bitsize="64"/><reg name="r9" bitsize="64"/><reg name="r10" bitsize="64"/>
<reg name="r11" bitsize="64"/><reg name="r12" bitsize="64"/><reg name="r13" bitsize="64"/><reg name="r14" bitsize="64"/>
<reg name="r15" bitsize="64"/><reg name="rip" bitsize='64'/><reg name="eflags" bitsize="32"/><reg name="cs" bitsize="32"/>
<reg name="st0" bitsize="80"/><reg name="xmm0" bitsize="128" regnum="40"/><reg name="cr3" bitsize="64"/></target>"#;

/// Makes a conversation and takes it in as the client would.
pub fn converse(random: &mut Random) {
    let mut stream = Vec::new();
    for _ in 0..=random.below(12) {
        match random.below(4) {
            0 => stream.push(random.next().to_le_bytes()[0]),
            1 => encode(DOCUMENT.as_bytes(), &mut stream),
            _ => encode(random.pick(&PACKETS).unwrap_or(&"").as_bytes(), &mut stream),
        }
    }
    damage(&mut stream, random);
    let mut decoder = Decoder::new();
    let mut rest = stream.as_slice();
    while !rest.is_empty() {
        let (mut piece, after) = rest.split_at(1 + random.below(rest.len()));
        rest = after;
        while let Some(item) = decoder.step(&mut piece) {
            if item == Item::Packet {
                understand(decoder.packet());
            }
        }
    }
    let mut document = DOCUMENT.as_bytes().to_vec();
    damage(&mut document, random);
    describe(&String::from_utf8_lossy(&document), &stream);
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len());
        change(bytes, at, random);
    }
    if random.below(6) == 0 {
        bytes.truncate(random.below(bytes.len() + 1));
    }
}

fn understand(packet: &[u8]) {
    let _ = (StopReply::parse(packet), number(packet));
    let _ = decode_hex(packet, &mut [0; 16]);
    describe(&String::from_utf8_lossy(packet), packet);
}

/// Reads a description in which every document is this one.
fn describe(document: &str, registers: &[u8]) {
    let mut description = Description::new();
    while description.wanted().is_some() {
        if description.add(document).is_err() {
            return;
        }
    }
    if let Ok(layout) = description.layout() {
        let _ = layout.registers(registers);
        let _ = layout.registers(&[b'0'; 1024]);
    }
}
