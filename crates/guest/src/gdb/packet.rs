//! Packets of the GDB remote protocol: `$data#checksum`, acknowledged by `+`.
//!
//! The bytes come from a foreign stub. [`Decoder`] accepts them in any pieces, and
//! resynchronises after garbage or a damaged packet. Whatever it is fed, it holds no
//! more than [`MAX_PACKET`] bytes.

/// The longest packet that is accepted, after expansion. Stubs announce 4 KiB to
/// 128 KiB.
pub const MAX_PACKET: usize = 1 << 20;

/// A repeat count is encoded as a printable character: the count plus this.
const REPEAT_BIAS: u8 = 29;

/// Appends a packet with this content to `out`.
pub fn encode(data: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    let mut sum = 0_u8;
    for &byte in data {
        if matches!(byte, b'#' | b'$' | b'}' | b'*') {
            let escaped = byte ^ 0x20;
            out.extend([b'}', escaped]);
            sum = sum.wrapping_add(b'}').wrapping_add(escaped);
        } else {
            out.push(byte);
            sum = sum.wrapping_add(byte);
        }
    }
    out.push(b'#');
    encode_hex(&[sum], out);
}

/// Appends two hexadecimal digits for each byte.
pub fn encode_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend([
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ]);
    }
}

/// Reads two hexadecimal digits for each byte of `bytes`; whether `text` consists of
/// exactly those.
#[must_use]
pub fn decode_hex(text: &[u8], bytes: &mut [u8]) -> bool {
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() != bytes.len() {
        return false;
    }
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        let (Some(high), Some(low)) = (digit(high), digit(low)) else {
            return false;
        };
        *byte = high << 4 | low;
    }
    true
}

/// A number in hexadecimal digits, the most significant first.
#[must_use]
pub fn number(text: &[u8]) -> Option<u64> {
    let mut digits = text.iter();
    let first = digit(*digits.next()?)?;
    digits.try_fold(first.into(), |value: u64, &character| {
        let digit = digit(character)?;
        (value >> 60 == 0).then_some(value << 4 | u64::from(digit))
    })
}

const fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

/// An item of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// A packet; [`Decoder::packet`] has its content until the next step.
    Packet,
    /// The other side has received a packet.
    Ack,
    /// The other side has received a damaged packet.
    Nack,
    /// A packet was damaged, or too long, and is dropped.
    Damaged,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Between packets.
    Idle,
    /// In a packet.
    Content,
    /// After `}`.
    Escaped,
    /// After `*`.
    Repeat,
    /// After `#`.
    Sum,
    /// After its first digit.
    SumEnd(u8),
}

/// Finds packets in a stream of bytes.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    content: Vec<u8>,
    sum: u8,
    /// The content is invalid: too long, or a repeat of nothing.
    damaged: bool,
    /// A notification (`%`), which is ignored.
    notification: bool,
    garbage: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// At the beginning of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Idle,
            content: Vec::new(),
            sum: 0,
            damaged: false,
            notification: false,
            garbage: false,
        }
    }

    /// Consumes `input` up to the end of the next item. `None` when all of it is consumed
    /// and no item is complete.
    pub fn step(&mut self, input: &mut &[u8]) -> Option<Item> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            if let Some(item) = self.take(byte) {
                return Some(item);
            }
        }
        None
    }

    /// The content of the packet that the last step found.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.content
    }

    /// Whether there were bytes outside packets.
    #[must_use]
    pub const fn heard_garbage(&self) -> bool {
        self.garbage
    }

    fn take(&mut self, byte: u8) -> Option<Item> {
        match self.state {
            State::Idle => match byte {
                b'$' | b'%' => self.begin(byte),
                b'+' => return Some(Item::Ack),
                b'-' => return Some(Item::Nack),
                _ => self.garbage = true,
            },
            // A packet begins before the last one has ended, whose end was lost.
            _ if byte == b'$' => {
                self.begin(byte);
                return Some(Item::Damaged);
            }
            State::Content => match byte {
                b'#' => self.state = State::Sum,
                b'}' => self.more(byte, State::Escaped),
                b'*' => self.more(byte, State::Repeat),
                _ => {
                    self.more(byte, State::Content);
                    self.append(byte, 1);
                }
            },
            State::Escaped => {
                self.more(byte, State::Content);
                self.append(byte ^ 0x20, 1);
            }
            State::Repeat => {
                self.more(byte, State::Content);
                match (byte.checked_sub(REPEAT_BIAS), self.content.last()) {
                    (Some(count @ 1..), Some(&last)) if byte < 127 => {
                        self.append(last, count.into());
                    }
                    _ => self.damaged = true,
                }
            }
            State::Sum => match digit(byte) {
                Some(digit) => self.state = State::SumEnd(digit << 4),
                None => return self.end(false),
            },
            State::SumEnd(high) => {
                let sound = digit(byte).is_some_and(|low| high | low == self.sum);
                return self.end(sound);
            }
        }
        None
    }

    fn begin(&mut self, byte: u8) {
        self.state = State::Content;
        self.content.clear();
        self.sum = 0;
        self.damaged = false;
        self.notification = byte == b'%';
    }

    fn more(&mut self, byte: u8, state: State) {
        self.sum = self.sum.wrapping_add(byte);
        self.state = state;
    }

    fn append(&mut self, byte: u8, count: usize) {
        let len = self.content.len() + count;
        if len > MAX_PACKET {
            self.damaged = true;
        } else if !self.damaged {
            self.content.resize(len, byte);
        }
    }

    fn end(&mut self, sound: bool) -> Option<Item> {
        self.state = State::Idle;
        if !sound || self.damaged {
            self.content.clear();
            return Some(Item::Damaged);
        }
        (!self.notification).then_some(Item::Packet)
    }
}

#[cfg(test)]
mod tests;
