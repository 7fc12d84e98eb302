//! The least of an ELF file that is a kernel: code, and behind it data.

/// Where the code begins.
pub const TEXT: u64 = 0xffff_ffff_8100_0000;
/// How much there is of it.
pub const TEXT_SIZE: u64 = 0x1000;
/// Where the data begins.
pub const DATA: u64 = TEXT + TEXT_SIZE;

/// One segment with a `.text` of `code` and a `.rodata` of `data`.
pub fn kernel(code: &[u8], data: &[u8]) -> Vec<u8> {
    assert!(code.len() as u64 <= TEXT_SIZE);
    const START: u64 = 0x1000;
    let size = TEXT_SIZE + data.len() as u64;
    let mut file = Vec::new();
    let names = b"\0.text\0.rodata\0.shstrtab\0";
    let names_at = (START + size).next_multiple_of(8);
    let headers_at = (names_at + names.len() as u64).next_multiple_of(8);
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend(words16(&[2, 62]));
    file.extend(1u32.to_le_bytes());
    file.extend(words64(&[TEXT, 64, headers_at]));
    file.extend(0u32.to_le_bytes());
    file.extend(words16(&[64, 56, 1, 64, 4, 3]));
    // Loaded, readable, writable and executable, as a kernel's may be.
    file.extend(words64(&[
        1 | 7 << 32,
        START,
        TEXT,
        TEXT,
        size,
        size,
        START,
    ]));
    file.resize(START as usize, 0);
    file.extend(code);
    file.resize((START + TEXT_SIZE) as usize, 0xcc);
    file.extend(data);
    file.resize(names_at as usize, 0);
    file.extend(names);
    file.resize(headers_at as usize, 0);
    let progbits = 1 << 32;
    file.extend(words64(&[0; 8]));
    file.extend(words64(&[
        1 | progbits,
        6,
        TEXT,
        START,
        TEXT_SIZE,
        0,
        16,
        0,
    ]));
    let at = START + TEXT_SIZE;
    file.extend(words64(&[
        7 | progbits,
        2,
        DATA,
        at,
        data.len() as u64,
        0,
        8,
        0,
    ]));
    let strings = 3 << 32;
    file.extend(words64(&[
        15 | strings,
        0,
        0,
        names_at,
        names.len() as u64,
        0,
        1,
        0,
    ]));
    file
}

fn words16(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
