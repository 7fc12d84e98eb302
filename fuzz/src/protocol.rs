//! What a gdbstub may send: conversations and descriptions of registers.

use redhanded_guest::gdb::StopReply;
use redhanded_guest::gdb::description::Description;
use redhanded_guest::gdb::packet::{Decoder, Item, decode_hex, encode, number};

/// Takes in a conversation as the client would, in pieces of the length that the first byte
/// says.
pub fn converse(bytes: &[u8]) {
    let Some((length, stream)) = bytes.split_first() else {
        return;
    };
    let mut decoder = Decoder::new();
    for mut piece in stream.chunks(usize::from(*length).max(1)) {
        while let Some(item) = decoder.step(&mut piece) {
            if item == Item::Packet {
                understand(decoder.packet());
            }
        }
    }
    let mut sent = Vec::new();
    encode(stream, &mut sent);
}

fn understand(packet: &[u8]) {
    let _ = (StopReply::parse(packet), number(packet));
    let _ = decode_hex(packet, &mut [0; 16]);
}

/// Reads a description in which every document is this one.
pub fn describe(document: &str, registers: &[u8]) {
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
