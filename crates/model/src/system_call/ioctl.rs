//! What an `ioctl` does with the memory that its argument points to.
//!
//! A request of the modern form says so itself: its number holds a direction and a size. An
//! old one says nothing, and a few of the modern ones lie. Those are listed here. For any
//! other request nothing is claimed.

use crate::AccessKind::{self, Read, Update, Write};

/// Requests that do not say what they do, or say it wrongly: number, what the kernel does,
/// and to how many bytes. See `ioctl_tty(2)`, `netdevice(7)`, `tcp(7)` and `ioctl_iflags(2)`.
const LISTED: &[(u64, AccessKind, u64)] = &[
    (0x125d, Read, 4),        // BLKROSET
    (0x125e, Write, 4),       // BLKROGET
    (0x1260, Write, 8),       // BLKGETSIZE
    (0x1268, Write, 4),       // BLKSSZGET
    (0x5401, Write, 36),      // TCGETS
    (0x5402, Read, 36),       // TCSETS
    (0x5403, Read, 36),       // TCSETSW
    (0x5404, Read, 36),       // TCSETSF
    (0x5405, Write, 18),      // TCGETA
    (0x5406, Read, 18),       // TCSETA
    (0x5407, Read, 18),       // TCSETAW
    (0x5408, Read, 18),       // TCSETAF
    (0x540f, Write, 4),       // TIOCGPGRP
    (0x5410, Read, 4),        // TIOCSPGRP
    (0x5411, Write, 4),       // TIOCOUTQ, SIOCOUTQ
    (0x5412, Read, 1),        // TIOCSTI
    (0x5413, Write, 8),       // TIOCGWINSZ
    (0x5414, Read, 8),        // TIOCSWINSZ
    (0x5415, Write, 4),       // TIOCMGET
    (0x5416, Read, 4),        // TIOCMBIS
    (0x5417, Read, 4),        // TIOCMBIC
    (0x5418, Read, 4),        // TIOCMSET
    (0x5419, Write, 4),       // TIOCGSOFTCAR
    (0x541a, Read, 4),        // TIOCSSOFTCAR
    (0x541b, Write, 4),       // FIONREAD, SIOCINQ
    (0x5420, Read, 4),        // TIOCPKT
    (0x5421, Read, 4),        // FIONBIO
    (0x5423, Read, 4),        // TIOCSETD
    (0x5424, Write, 4),       // TIOCGETD
    (0x5429, Write, 4),       // TIOCGSID
    (0x5452, Read, 4),        // FIOASYNC
    (0x5460, Write, 8),       // FIOQSIZE
    (0x8901, Read, 4),        // FIOSETOWN
    (0x8902, Read, 4),        // SIOCSPGRP
    (0x8903, Write, 4),       // FIOGETOWN
    (0x8904, Write, 4),       // SIOCGPGRP
    (0x8905, Write, 4),       // SIOCATMARK
    (0x8906, Write, 16),      // SIOCGSTAMP
    (0x8907, Write, 16),      // SIOCGSTAMPNS
    (0x8910, Update, 40),     // SIOCGIFNAME
    (0x8913, Update, 40),     // SIOCGIFFLAGS
    (0x8914, Read, 40),       // SIOCSIFFLAGS
    (0x8915, Update, 40),     // SIOCGIFADDR
    (0x8916, Read, 40),       // SIOCSIFADDR
    (0x8919, Update, 40),     // SIOCGIFBRDADDR
    (0x891b, Update, 40),     // SIOCGIFNETMASK
    (0x891d, Update, 40),     // SIOCGIFMETRIC
    (0x8921, Update, 40),     // SIOCGIFMTU
    (0x8922, Read, 40),       // SIOCSIFMTU
    (0x8927, Update, 40),     // SIOCGIFHWADDR
    (0x8933, Update, 40),     // SIOCGIFINDEX
    (0x4008_6602, Read, 4),   // FS_IOC_SETFLAGS: says 8 bytes
    (0x8008_6601, Write, 4),  // FS_IOC_GETFLAGS: says 8 bytes
    (0x4004_9409, Read, 0),   // FICLONE: its argument is a number
    (0xc004_5877, Update, 0), // FIFREEZE: takes no argument
    (0xc004_5878, Update, 0), // FITHAW: takes no argument
];

/// What the kernel does for this request, and to how many bytes at its argument; `None` if
/// that is not known.
pub fn access(request: u64) -> Option<(AccessKind, u64)> {
    // The kernel takes an unsigned int.
    let request = request & 0xffff_ffff;
    if let Some(listed) = listed(request) {
        return Some(listed);
    }
    let size = (request >> 16) & 0x3fff;
    // The directions are the program's: it writes what the kernel reads.
    let kind = match request >> 30 {
        1 => Read,
        2 => Write,
        3 => Update,
        _ => return None,
    };
    (size > 0).then_some((kind, size))
}

/// The same of requests that are listed. What others say of themselves may not be true.
pub fn listed(request: u64) -> Option<(AccessKind, u64)> {
    let request = request & 0xffff_ffff;
    let listed = LISTED.iter().find(|(number, ..)| *number == request);
    listed.map(|(_, kind, length)| (*kind, *length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_it_does_or_nothing_is_known() {
        assert_eq!(access(0x5421), Some((Read, 4)), "FIONBIO");
        assert_eq!(access(0x541b), Some((Write, 4)), "FIONREAD");
        assert_eq!(access(0x8004_5430), Some((Write, 4)), "TIOCGPTN");
        assert_eq!(access(0x4004_5431), Some((Read, 4)), "TIOCSPTLCK");
        assert_eq!(access(0xc020_660b), Some((Update, 32)), "FS_IOC_FIEMAP");
        assert_eq!(access(0x8008_6601), Some((Write, 4)), "FS_IOC_GETFLAGS");
        assert_eq!(access(0x5422), None, "an old one that is not listed");
        assert_eq!(access(0x2000_5422), None, "no direction");
        // A sign-extended number is the same request.
        assert_eq!(access(0xffff_ffff_8004_5430), Some((Write, 4)));
    }

    #[test]
    fn each_is_listed_once() {
        for (index, (number, ..)) in LISTED.iter().enumerate() {
            assert!(
                LISTED[index + 1..]
                    .iter()
                    .all(|(other, ..)| other != number),
                "{number:#x}"
            );
        }
    }
}
