//! The tables of kallsyms, made as the kernel's build makes them.

use super::bare_elf::{DATA, TEXT, kernel};
use redhanded_image::kernel_file::KernelSymbol;

/// In which order the tables stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Addresses first.
    Until6_3,
    /// The same, with a table of names in alphabetical order among them.
    Of6_2,
    /// Addresses last.
    Since6_4,
}

/// How addresses are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    Whole,
    Relative,
    PerCpu,
    FromHere,
}

/// Tokens of more than one letter, at numbers that are no letter's.
const LONG: [&str; 6] = [
    "__",
    "sys_",
    "_lock",
    "tcp_v4_",
    "Tinit",
    "ext4_mark_inode_dirty",
];

fn token(number: usize) -> String {
    match number {
        0x21..=0x7e => char::from(number as u8).to_string(),
        0x80.. if number - 128 < LONG.len() => LONG[number - 128].to_owned(),
        _ => String::new(),
    }
}

/// A kernel whose tables tell of `symbols`, which are sorted.
pub fn encode(
    symbols: &[KernelSymbol],
    order: Order,
    addresses: Addresses,
    wide_markers: bool,
) -> Vec<u8> {
    // Something that is no table must not be taken for one.
    let mut data: Vec<u8> = (0..4096u32)
        .flat_map(|n| (n / 3 % 251).to_le_bytes())
        .collect();
    data.extend((0..256u16).flat_map(|n| (n * 3).to_le_bytes()));
    if order != Order::Since6_4 {
        put_addresses(&mut data, symbols, addresses);
    }
    table(&mut data, &(symbols.len() as u32).to_le_bytes());
    let (names, markers) = names(symbols);
    table(&mut data, &names);
    let markers = markers.iter().flat_map(|marker| match wide_markers {
        true => (*marker as u64).to_le_bytes().to_vec(),
        false => (*marker as u32).to_le_bytes().to_vec(),
    });
    table(&mut data, &markers.collect::<Vec<_>>());
    if order == Order::Of6_2 {
        let sequence = (0..symbols.len() as u32).rev();
        let bytes: Vec<u8> = sequence
            .flat_map(|n| n.to_be_bytes()[1..].to_vec())
            .collect();
        table(&mut data, &bytes);
    }
    let (mut strings, mut index) = (Vec::new(), Vec::new());
    for number in 0..256 {
        index.extend((strings.len() as u16).to_le_bytes());
        strings.extend(token(number).bytes().chain([0]));
    }
    table(&mut data, &strings);
    table(&mut data, &index);
    if order == Order::Since6_4 {
        put_addresses(&mut data, symbols, addresses);
    }
    table(&mut data, &[0xee; 64]);
    kernel(&[0xc3], &data)
}

fn table(data: &mut Vec<u8>, bytes: &[u8]) {
    data.resize(data.len().next_multiple_of(8), 0);
    data.extend(bytes);
    data.resize(data.len().next_multiple_of(8), 0);
}

fn put_addresses(data: &mut Vec<u8>, symbols: &[KernelSymbol], addresses: Addresses) {
    data.resize(data.len().next_multiple_of(8), 0);
    let here = DATA + data.len() as u64;
    let bytes = symbols.iter().enumerate().flat_map(|(nth, symbol)| {
        let address = symbol.address;
        let relative = address.wrapping_sub(TEXT) as u32;
        match addresses {
            Addresses::Whole => address.to_le_bytes().to_vec(),
            Addresses::Relative => relative.to_le_bytes().to_vec(),
            Addresses::PerCpu if address < TEXT => (address as u32).to_le_bytes().to_vec(),
            Addresses::PerCpu => (!relative).to_le_bytes().to_vec(),
            Addresses::FromHere => {
                let distance = address.wrapping_sub(here + 4 * nth as u64);
                (distance as u32).to_le_bytes().to_vec()
            }
        }
    });
    let bytes: Vec<u8> = bytes.collect();
    table(data, &bytes);
    if matches!(addresses, Addresses::Relative | Addresses::PerCpu) {
        table(data, &TEXT.to_le_bytes());
    }
}

/// The packed names, and where every 256th begins.
fn names(symbols: &[KernelSymbol]) -> (Vec<u8>, Vec<usize>) {
    let (mut names, mut markers) = (Vec::new(), Vec::new());
    for (nth, symbol) in symbols.iter().enumerate() {
        if nth % 256 == 0 {
            markers.push(names.len());
        }
        let packed = pack(&format!("{}{}", symbol.kind, symbol.name));
        if packed.len() < 0x80 {
            names.push(packed.len() as u8);
        } else {
            names.extend([packed.len() as u8 | 0x80, (packed.len() >> 7) as u8]);
        }
        names.extend(packed);
    }
    (names, markers)
}

fn pack(text: &str) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.bytes().next() {
        let long = LONG.iter().position(|token| rest.starts_with(token));
        packed.push(long.map_or(letter, |long| 128 + long as u8));
        rest = &rest[long.map_or(1, |long| LONG[long].len())..];
    }
    packed
}
