//! The system calls that access a program's memory on a thread's behalf, and the
//! arguments that say which memory.
//!
//! Only what is known is claimed: which way the data goes, and how far. After the call its
//! result says how much was written; nothing beyond that is explained by it.

mod ioctl;
mod table;

use crate::{AccessKind, Avma, Bytes, Register, Registers};
use table::{Extent, ROWS};

/// The most iovecs that are looked at.
const MOST_VECTORS: u64 = 64;
/// The longest text that the kernel takes (`PATH_MAX`).
const LONGEST_TEXT: u64 = 4096;

/// How far a system call has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The thread has just returned from it, so that rax holds its result.
    Returned,
    /// It is under way, and may do everything that its arguments allow.
    UnderWay,
}

/// A system call with its arguments, and the memory that they point to.
struct Call<'a> {
    arguments: [u64; 6],
    /// What it returned; `None` while it is under way.
    result: Option<i64>,
    read_word: &'a mut dyn FnMut(Avma) -> Option<u64>,
}

/// The access to `watched` by the system call of a thread, if its arguments show one that
/// conflicts with an access of kind `with`.
pub fn access(
    registers: &Registers,
    progress: Progress,
    watched: Bytes,
    with: AccessKind,
    read_word: &mut dyn FnMut(Avma) -> Option<u64>,
) -> Option<(&'static str, AccessKind, Bytes)> {
    let mut call = Call {
        arguments: Register::SYSTEM_CALL_ARGUMENTS.map(|register| registers.get(register)),
        result: (progress == Progress::Returned).then(|| registers.get(Register::Rax) as i64),
        read_word,
    };
    let rows = ROWS
        .iter()
        .filter(|row| row.number == registers.system_call);
    for row in rows {
        let kind = match row.extent {
            Extent::Request(index) => match ioctl::access(call.arguments[index]) {
                Some((kind, _)) => kind,
                None => continue,
            },
            _ => row.kind,
        };
        // A call that failed may have read its arguments, but wrote no results.
        let failed = call.result.is_some_and(|result| result < 0);
        let kind = match (failed, kind) {
            (true, AccessKind::Write) => continue,
            (true, _) => AccessKind::Read,
            (false, kind) => kind,
        };
        if !kind.conflicts(with) {
            continue;
        }
        let ranges = call.ranges(row.pointer, row.extent, kind);
        if let Some(bytes) = ranges.into_iter().find_map(|r| r.intersection(watched)) {
            return Some((row.name, kind, bytes));
        }
    }
    None
}

/// The memory that the system call of a thread, which is under way, unmaps, and its name.
#[must_use]
pub fn unmaps(registers: &Registers) -> Option<(&'static str, Bytes)> {
    let name = match registers.system_call {
        11 => "munmap",
        25 => "mremap",
        _ => return None,
    };
    let [start, length, ..] = Register::SYSTEM_CALL_ARGUMENTS.map(|one| registers.get(one));
    Some((name, Bytes::new(Avma(start), length)))
}

/// Calls that access all that their row says whenever they succeed, and of what they send or fill
/// as much as they return. Others may look at less: of a longer option, for example.
const CERTAIN: [i64; 23] = [
    0, 1, 4, 5, 6, 7, 16, 17, 18, 22, 44, 45, 53, 63, 97, 98, 99, 228, 232, 262, 293, 302, 318,
];

const RECVFROM: i64 = 45;
const MSG_TRUNC: u64 = 0x20;

/// What a system call that returned `result` has certainly accessed, as far as its arguments say
/// it without the memory that they point to.
#[must_use]
pub fn certain(
    number: u64,
    arguments: [u64; 6],
    result: i64,
) -> Vec<(&'static str, AccessKind, Bytes)> {
    let Some(number) = i64::try_from(number).ok().filter(|it| CERTAIN.contains(it)) else {
        return Vec::new();
    };
    let Ok(transferred) = u64::try_from(result) else {
        return Vec::new();
    };
    // Bytes of a stream are counted and thrown away.
    if number == RECVFROM && arguments[3] & MSG_TRUNC != 0 {
        return Vec::new();
    }
    let mut call = Call {
        arguments,
        result: Some(result),
        read_word: &mut |_| None,
    };
    let mut made = Vec::new();
    for row in ROWS.iter().filter(|row| row.number == number) {
        let kind = match row.extent {
            Extent::Request(index) => match ioctl::listed(arguments[index]) {
                Some((kind, _)) => kind,
                None => continue,
            },
            _ if row.kind == AccessKind::Update => continue,
            _ => row.kind,
        };
        for mut bytes in call.ranges(row.pointer, row.extent, kind) {
            // Of the buffer that is sent; an address or a mask is no buffer.
            if matches!(row.extent, Extent::Argument(_)) {
                if row.pointer != 1 {
                    continue;
                }
                bytes.len = bytes.len.min(transferred);
            }
            if bytes.len > 0 {
                made.push((row.name, kind, bytes));
            }
        }
    }
    made
}

impl Call<'_> {
    /// The bytes that a pointer argument stands for.
    fn ranges(&mut self, pointer: usize, extent: Extent, kind: AccessKind) -> Vec<Bytes> {
        let at = Avma(self.arguments[pointer]);
        if at.0 == 0 {
            return Vec::new();
        }
        let argument = |index: usize| self.arguments[index];
        let one = |length| vec![Bytes::new(at, length)];
        match extent {
            Extent::Argument(index) => one(argument(index)),
            Extent::Fixed(length) => one(length),
            Extent::Units(index, size) => one(argument(index).saturating_mul(size)),
            Extent::Returned(index, size) => {
                one(self.returned(argument(index)).saturating_mul(size))
            }
            Extent::Revents(index) => (0..argument(index).min(LONGEST_TEXT))
                .map(|unit| Bytes::new(at.offset(unit * 8 + 6), 2))
                .collect(),
            Extent::Bits(index) => one(argument(index).div_ceil(64).saturating_mul(8)),
            Extent::ToldBy(index) => {
                let told = (self.read_word)(Avma(argument(index)));
                one(told.map_or(0, |word| word & 0xffff_ffff))
            }
            Extent::Text => one(self.text(at)),
            Extent::Buffers(index) => self.buffers(at, argument(index), kind),
            Extent::Part(offset, length) => vec![Bytes::new(at.offset(offset), length)],
            Extent::Request(index) => one(ioctl::access(argument(index)).map_or(0, |(_, n)| n)),
            Extent::MessageVector => match (self.word(at, 16), self.word(at, 24)) {
                (Some(vector), Some(count)) => {
                    vec![Bytes::new(Avma(vector), count.saturating_mul(16))]
                }
                _ => Vec::new(),
            },
            Extent::MessageBuffers => match (self.word(at, 16), self.word(at, 24)) {
                (Some(vector), Some(count)) => self.buffers(Avma(vector), count, kind),
                _ => Vec::new(),
            },
            Extent::MessageName => match (self.word(at, 0), self.word(at, 8)) {
                (Some(name), Some(length)) => {
                    vec![Bytes::new(Avma(name), length & 0xffff_ffff)]
                }
                _ => Vec::new(),
            },
            Extent::MessageControl => match (self.word(at, 32), self.word(at, 40)) {
                (Some(control), Some(length)) => vec![Bytes::new(Avma(control), length)],
                _ => Vec::new(),
            },
        }
    }

    /// How many of `most` units the call returned, or may return.
    fn returned(&self, most: u64) -> u64 {
        match self.result {
            None => most,
            // `MSG_TRUNC` returns more than was there to be filled.
            Some(result) => u64::try_from(result).unwrap_or(0).min(most),
        }
    }

    fn word(&mut self, at: Avma, offset: u64) -> Option<u64> {
        (self.read_word)(at.offset(offset))
    }

    /// The length of a text with its zero; 0 if it cannot be read to its end.
    fn text(&mut self, at: Avma) -> u64 {
        let mut length = 0;
        while length < LONGEST_TEXT {
            // Aligned words do not reach into the next page.
            let here = at.0.saturating_add(length);
            let Some(word) = (self.read_word)(Avma(here & !7)) else {
                return 0;
            };
            for byte in &word.to_le_bytes()[(here & 7) as usize..] {
                length += 1;
                if *byte == 0 {
                    return length;
                }
            }
        }
        0
    }

    /// The buffers of an array of iovecs. A call that writes them fills them in order, as far
    /// as its result goes.
    fn buffers(&mut self, at: Avma, count: u64, kind: AccessKind) -> Vec<Bytes> {
        let mut left = if kind.writes() {
            self.returned(u64::MAX)
        } else {
            u64::MAX
        };
        let mut buffers = Vec::new();
        for index in 0..count.min(MOST_VECTORS) {
            let (start, length) = (self.word(at, index * 16), self.word(at, index * 16 + 8));
            let (Some(start), Some(length)) = (start, length) else {
                break;
            };
            let length = length.min(left);
            left -= length;
            buffers.push(Bytes::new(Avma(start), length));
        }
        buffers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessKind::{Read, Update, Write};

    fn after(number: i64, arguments: &[u64], result: i64) -> Registers {
        let mut registers = Registers {
            system_call: number,
            ..Registers::default()
        };
        for (register, value) in Register::SYSTEM_CALL_ARGUMENTS.iter().zip(arguments) {
            registers.set(*register, *value);
        }
        registers.set(Register::Rax, result as u64);
        registers
    }

    fn words(at: Avma) -> Option<u64> {
        Some(match at.0 {
            // An array of two iovecs.
            0x2000 => 0x9000,
            0x2008 => 4,
            0x2010 => 0xa000,
            0x2018 => 16,
            // A length.
            0x3000 => 0xdead_beef_0000_0010,
            // "/tmp/x" from the fourth byte on.
            0x4000 => u64::from_le_bytes(*b"xyz/tmp/"),
            0x4008 => u64::from_le_bytes(*b"x\0unused"),
            // A message header: name, its length, iovecs, their count, control, its length.
            0x5000 => 0x6000,
            0x5008 => 16,
            0x5010 => 0x2000,
            0x5018 => 2,
            0x5020 => 0x7000,
            0x5028 => 24,
            _ => return None,
        })
    }

    /// What a call did to the byte at `at`, for a sampled access of kind `with`.
    #[track_caller]
    fn check(registers: &Registers, at: u64, with: AccessKind, expect: Option<AccessKind>) {
        let watched = Bytes::new(Avma(at), 1);
        let found = access(registers, Progress::Returned, watched, with, &mut words);
        assert_eq!(found.map(|(_, kind, _)| kind), expect, "{at:#x}");
    }

    #[test]
    fn read_writes_as_much_as_it_returned_and_nothing_else() {
        let read = after(0, &[3, 0x1000, 64], 10);
        check(&read, 0x1009, Read, Some(Write));
        check(&read, 0x100a, Read, None);
        check(&after(0, &[3, 0x1000, 64], -4), 0x1000, Read, None);
        check(&after(39, &[3, 0x1000, 64], 10), 0x1000, Read, None);
        // While it waits, it may write the whole buffer.
        let watched = Bytes::new(Avma(0x103f), 1);
        let waiting = access(&read, Progress::UnderWay, watched, Read, &mut words);
        assert_eq!(waiting, Some(("read", Write, watched)));
    }

    #[test]
    fn what_is_certain_needs_a_result_and_no_memory() {
        let certain = |number, arguments: [u64; 3], result| {
            let [first, second, third] = arguments;
            let made = certain(number, [first, second, third, 0, 0, 0], result);
            let told = made.into_iter();
            told.map(|(_, kind, bytes)| (kind, bytes.start.0, bytes.len))
                .collect::<Vec<_>>()
        };
        let (read, write) = (0, 1);
        assert_eq!(certain(read, [3, 0x1000, 64], 10), [(Write, 0x1000, 10)]);
        assert_eq!(certain(read, [3, 0x1000, 64], 0), []);
        assert_eq!(certain(read, [3, 0x1000, 64], -4), []);
        // As much as was sent, and nothing if it failed.
        assert_eq!(certain(write, [1, 0x1000, 64], 16), [(Read, 0x1000, 16)]);
        assert_eq!(certain(write, [1, 0x1000, 64], -11), []);
        let received = |flags| super::certain(45, [3, 0x1000, 64, flags, 0, 0], 64).len();
        assert_eq!([received(0), received(MSG_TRUNC)], [1, 0]);
        // Texts and vectors are in memory.
        assert_eq!(certain(2, [0x1000, 0, 0], 3), []);
        assert_eq!(certain(20, [1, 0x1000, 2], 8), []);
        // FIONBIO is listed; what a request of an unknown driver does, is not known.
        assert_eq!(certain(16, [3, 0x5421, 0x1000], 0), [(Read, 0x1000, 4)]);
        let of_unknown_driver = 0x8004_ee01;
        assert_eq!(certain(16, [3, of_unknown_driver, 0x1000], 0), []);
    }

    #[test]
    fn a_failed_call_has_read_its_arguments() {
        let failed = after(42, &[3, 0x1000, 16], -111);
        check(&failed, 0x100f, Write, Some(Read));
        check(&failed, 0x100f, Read, None);
    }

    #[test]
    fn a_vector_is_filled_in_order() {
        let readv = after(19, &[3, 0x2000, 2], 6);
        check(&readv, 0x9003, Read, Some(Write));
        check(&readv, 0x9004, Read, None);
        check(&readv, 0xa001, Read, Some(Write));
        check(&readv, 0xa002, Read, None);
        check(&readv, 0x201f, Write, Some(Read));
        check(&readv, 0x2020, Write, None);
    }

    #[test]
    fn a_message_is_followed() {
        let received = after(47, &[3, 0x5000, 0], 5);
        check(&received, 0x9000, Read, Some(Write));
        check(&received, 0xa000, Read, Some(Write));
        check(&received, 0xa001, Read, None);
        check(&received, 0x600f, Read, Some(Write));
        check(&received, 0x7017, Read, Some(Write));
        check(&received, 0x5030, Read, Some(Write));
        check(&received, 0x5008, Read, Some(Update));
        check(&received, 0x5010, Read, None);
        check(&received, 0x5010, Write, Some(Read));
        let sent = after(46, &[3, 0x5000, 0], 20);
        check(&sent, 0xa00f, Write, Some(Read));
        check(&sent, 0xa00f, Read, None);
    }

    #[test]
    fn a_length_may_be_a_value_and_a_result() {
        let accepted = after(43, &[3, 0x1000, 0x3000], 4);
        check(&accepted, 0x100f, Read, Some(Write));
        check(&accepted, 0x1010, Read, None);
        check(&accepted, 0x3003, Read, Some(Update));
        check(&accepted, 0x3004, Read, None);
    }

    #[test]
    fn poll_writes_only_the_returned_events() {
        let polled = after(7, &[0x1000, 2, 0], 1);
        check(&polled, 0x1006, Read, Some(Write));
        check(&polled, 0x100f, Read, Some(Write));
        check(&polled, 0x1008, Read, None);
        check(&polled, 0x1008, Write, Some(Read));
        check(&polled, 0x1010, Write, None);
    }

    #[test]
    fn events_are_written_as_many_as_returned() {
        let waited = after(232, &[3, 0x1000, 100, 0], 2);
        check(&waited, 0x1017, Read, Some(Write));
        check(&waited, 0x1018, Read, None);
    }

    #[test]
    fn a_path_is_read_up_to_its_zero() {
        let opened = after(257, &[0, 0x4003, 0], -2);
        check(&opened, 0x4009, Write, Some(Read));
        check(&opened, 0x400a, Write, None);
        check(&opened, 0x4002, Write, None);
        check(&opened, 0x4009, Read, None);
    }

    #[test]
    fn a_request_reads_or_writes_as_it_says() {
        let nonblocking = after(16, &[3, 0x5421, 0x1000], 0);
        check(&nonblocking, 0x1003, Write, Some(Read));
        check(&nonblocking, 0x1003, Read, None);
        check(&nonblocking, 0x1004, Write, None);
        let waiting = after(16, &[3, 0x541b, 0x1000], 0);
        check(&waiting, 0x1003, Read, Some(Write));
        let unknown = after(16, &[3, 0x5422, 0x1000], 0);
        check(&unknown, 0x1000, Write, None);
    }

    #[test]
    fn a_call_that_unmaps_names_the_memory() {
        let unmapped = |number| unmaps(&after(number, &[0x1000, 0x2000], 0));
        let bytes = Bytes::new(Avma(0x1000), 0x2000);
        assert_eq!(unmapped(11), Some(("munmap", bytes)));
        assert_eq!(unmapped(25), Some(("mremap", bytes)));
        assert_eq!(unmapped(9), None);
    }
}
