//! Stop replies.

use super::packet::number;
use super::point::PointKind;

/// Why the machine stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReply {
    /// All vCPUs stopped.
    Stopped {
        /// The vCPU that caused it, according to the stub. When two hit something at the
        /// same time only one is named; the other hits again, or is reported late.
        vcpu: Option<u32>,
        /// The signal, in GDB's numbers: [`StopReply::TRAP`],
        /// [`StopReply::INTERRUPT`], or others if the machine is in trouble.
        signal: u8,
        /// The watch that was hit and its address. QEMU sometimes names one that
        /// is gone, or a wrong address.
        watch: Option<(PointKind, u64)>,
    },
    /// The machine ended with this status.
    Exited(u8),
    /// A signal ended it.
    Killed(u8),
}

impl StopReply {
    /// The stop was requested.
    pub const INTERRUPT: u8 = 2;
    /// A breakpoint or a watch.
    pub const TRAP: u8 = 5;

    /// Whether a packet is a stop reply, perhaps an unreadable one. No answer to a
    /// request begins like one.
    #[must_use]
    pub fn begins(packet: &[u8]) -> bool {
        matches!(packet.first(), Some(b'T' | b'S' | b'W' | b'X'))
    }

    /// Parses a packet.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (&kind, rest) = packet.split_first()?;
        let (status, details) = rest.split_at_checked(2)?;
        let status = number(status)? as u8;
        match kind {
            b'W' => Some(Self::Exited(status)),
            b'X' => Some(Self::Killed(status)),
            b'S' => Some(Self::stopped(status, b"")),
            b'T' => Some(Self::stopped(status, details)),
            _ => None,
        }
    }

    fn stopped(signal: u8, details: &[u8]) -> Self {
        let (mut vcpu, mut watch) = (None, None);
        for detail in details.split(|&byte| byte == b';') {
            let Some(colon) = detail.iter().position(|&byte| byte == b':') else {
                continue;
            };
            let (key, value) = (&detail[..colon], &detail[colon + 1..]);
            let kind = match key {
                b"thread" => {
                    vcpu = thread(value);
                    continue;
                }
                b"watch" => PointKind::Write,
                b"rwatch" => PointKind::Read,
                b"awatch" => PointKind::Access,
                _ => continue,
            };
            watch = number(value).map(|address| (kind, address));
        }
        Self::Stopped {
            vcpu,
            signal,
            watch,
        }
    }
}

/// A thread's number, alone or after that of its process (`p1.2`).
pub fn thread(text: &[u8]) -> Option<u32> {
    let thread = match text.strip_prefix(b"p") {
        Some(both) => both.split(|&byte| byte == b'.').nth(1)?,
        None => text,
    };
    u32::try_from(number(thread)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_stubs_say() {
        let stopped = |vcpu, signal, watch| {
            Some(StopReply::Stopped {
                vcpu,
                signal,
                watch,
            })
        };
        for (packet, expected) in [
            ("T05thread:01;", stopped(Some(1), 5, None)),
            ("T02thread:p01.1f;", stopped(Some(31), 2, None)),
            (
                "T05thread:02;awatch:ffffffff82000010;",
                stopped(Some(2), 5, Some((PointKind::Access, 0xffff_ffff_8200_0010))),
            ),
            (
                "T05watch:8;core:1;thread:3",
                stopped(Some(3), 5, Some((PointKind::Write, 8))),
            ),
            (
                "T05rwatch:zz;thread:99999999999;:;;",
                stopped(None, 5, None),
            ),
            ("S05", stopped(None, 5, None)),
            ("W00", Some(StopReply::Exited(0))),
            ("W2a;process:1", Some(StopReply::Exited(0x2a))),
            ("X09", Some(StopReply::Killed(9))),
            ("T", None),
            ("T0", None),
            ("Txxthread:01;", None),
            ("OK", None),
            ("", None),
        ] {
            assert_eq!(StopReply::parse(packet.as_bytes()), expected, "{packet}");
        }
    }
}
