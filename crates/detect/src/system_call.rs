//! The system calls that access memory of the program on a thread's behalf, and
//! which of their arguments say what memory.

use redhanded_model::{AccessKind, Avma, Bytes, Register, Registers};

/// Where the length of an argument's memory is.
#[derive(Clone, Copy, Debug)]
enum Length {
    /// In this argument.
    Argument(usize),
    /// Always so many bytes.
    Fixed(u64),
    /// The argument points to this: an array of iovecs whose count is in the
    /// other argument, or a message header with one.
    Vector(usize),
    Message,
}

struct Call {
    number: i64,
    name: &'static str,
    kind: AccessKind,
    pointer: usize,
    length: Length,
}

const fn call(
    number: i64,
    name: &'static str,
    kind: AccessKind,
    pointer: usize,
    length: Length,
) -> Call {
    Call {
        number,
        name,
        kind,
        pointer,
        length,
    }
}

use AccessKind::{Read, Write};
use Length::{Argument, Fixed, Message, Vector};

/// One line an argument. Kinds are the kernel's: `read(2)` *writes* the buffer.
const CALLS: &[Call] = &[
    call(0, "read", Write, 1, Argument(2)),
    call(1, "write", Read, 1, Argument(2)),
    call(4, "stat", Write, 1, Fixed(144)),
    call(5, "fstat", Write, 1, Fixed(144)),
    call(6, "lstat", Write, 1, Fixed(144)),
    call(7, "poll", Write, 0, Fixed(4096)),
    call(13, "rt_sigaction", Write, 2, Fixed(32)),
    call(16, "ioctl", Write, 2, Fixed(256)),
    call(17, "pread64", Write, 1, Argument(2)),
    call(18, "pwrite64", Read, 1, Argument(2)),
    call(19, "readv", Write, 1, Vector(2)),
    call(20, "writev", Read, 1, Vector(2)),
    call(22, "pipe", Write, 0, Fixed(8)),
    call(35, "nanosleep", Read, 0, Fixed(16)),
    call(44, "sendto", Read, 1, Argument(2)),
    call(45, "recvfrom", Write, 1, Argument(2)),
    call(46, "sendmsg", Read, 1, Message),
    call(47, "recvmsg", Write, 1, Message),
    call(61, "wait4", Write, 1, Fixed(4)),
    call(78, "getdents", Write, 1, Argument(2)),
    call(79, "getcwd", Write, 0, Argument(1)),
    call(89, "readlink", Write, 1, Argument(2)),
    call(96, "gettimeofday", Write, 0, Fixed(16)),
    call(98, "getrusage", Write, 1, Fixed(144)),
    call(99, "sysinfo", Write, 0, Fixed(112)),
    call(217, "getdents64", Write, 1, Argument(2)),
    call(228, "clock_gettime", Write, 1, Fixed(16)),
    call(232, "epoll_wait", Write, 1, Fixed(4096)),
    call(233, "epoll_ctl", Read, 3, Fixed(12)),
    call(262, "newfstatat", Write, 2, Fixed(144)),
    call(267, "readlinkat", Write, 2, Argument(3)),
    call(281, "epoll_pwait", Write, 1, Fixed(4096)),
    call(295, "preadv", Write, 1, Vector(2)),
    call(296, "pwritev", Read, 1, Vector(2)),
    call(318, "getrandom", Write, 0, Argument(1)),
    call(327, "preadv2", Write, 1, Vector(2)),
    call(328, "pwritev2", Read, 1, Vector(2)),
    call(332, "statx", Write, 4, Fixed(256)),
];

const MOST_VECTORS: u64 = 64;

/// The access of the system call a thread just returned from to `watched`, if
/// its arguments say that it has one.
pub fn access(
    registers: &Registers,
    watched: Bytes,
    read_word: &mut dyn FnMut(Avma) -> Option<u64>,
) -> Option<(&'static str, AccessKind, Bytes)> {
    let arguments = Register::SYSTEM_CALL_ARGUMENTS.map(|register| registers.get(register));
    let calls = CALLS
        .iter()
        .filter(|call| call.number == registers.system_call);
    for call in calls {
        let pointer = Avma(arguments[call.pointer]);
        let ranges = match call.length {
            Argument(index) => vec![Bytes::new(pointer, arguments[index])],
            Fixed(length) => vec![Bytes::new(pointer, length)],
            Vector(index) => vectors(pointer, arguments[index], read_word),
            Message => {
                let vector = read_word(pointer.offset(16))?;
                let count = read_word(pointer.offset(24))?;
                vectors(Avma(vector), count, read_word)
            }
        };
        let hit = ranges.into_iter().find_map(|r| r.intersection(watched));
        if let Some(bytes) = hit {
            return Some((call.name, call.kind, bytes));
        }
    }
    None
}

fn vectors(at: Avma, count: u64, read_word: &mut dyn FnMut(Avma) -> Option<u64>) -> Vec<Bytes> {
    (0..count.min(MOST_VECTORS))
        .filter_map(|index| {
            let start = read_word(at.offset(index * 16))?;
            let length = read_word(at.offset(index * 16 + 8))?;
            Some(Bytes::new(Avma(start), length))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(number: i64, arguments: [u64; 3]) -> Registers {
        let mut registers = Registers {
            system_call: number,
            ..Registers::default()
        };
        registers.set(Register::Rdi, arguments[0]);
        registers.set(Register::Rsi, arguments[1]);
        registers.set(Register::Rdx, arguments[2]);
        registers
    }

    #[test]
    fn read_writes_its_buffer_and_nothing_else() {
        let registers = after(0, [3, 0x1000, 64]);
        let mut none = |_| None;
        let inside = access(&registers, Bytes::new(Avma(0x1038), 8), &mut none);
        assert_eq!(inside, Some(("read", Write, Bytes::new(Avma(0x1038), 8))));
        assert_eq!(
            access(&registers, Bytes::new(Avma(0x1040), 8), &mut none),
            None
        );
        let other = after(39, [3, 0x1000, 64]);
        assert_eq!(access(&other, Bytes::new(Avma(0x1000), 8), &mut none), None);
    }

    #[test]
    fn a_vector_is_followed() {
        let registers = after(19, [3, 0x2000, 2]);
        let mut memory = |at: Avma| match at.0 {
            0x2000 => Some(0x9000),
            0x2008 => Some(4),
            0x2010 => Some(0xa000),
            0x2018 => Some(16),
            _ => None,
        };
        let hit = access(&registers, Bytes::new(Avma(0xa008), 4), &mut memory);
        assert_eq!(hit.map(|(name, ..)| name), Some("readv"));
        assert_eq!(
            access(&registers, Bytes::new(Avma(0x9004), 4), &mut memory),
            None
        );
    }
}
