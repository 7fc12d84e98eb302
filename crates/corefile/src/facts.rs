//! Reads what `/proc` tells about the process and its threads, apart from their memory.

use super::CoreThread;
use redhanded_sys::{StatLine, status_field};
use std::fs;
use std::io;

/// What the notes say about the process.
pub struct Facts {
    pub pid: i32,
    /// The process's own line.
    pub process: Stat,
    /// A line for each thread; empty for one that ended meanwhile.
    pub threads: Vec<Stat>,
    pub uid: u32,
    pub gid: u32,
    /// Its arguments, separated by spaces.
    pub arguments: Vec<u8>,
    /// What the kernel gave it at its start.
    pub auxv: Vec<u8>,
}

/// One line of `/proc/PID/stat` with the signals of `status`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Stat {
    pub name: Vec<u8>,
    pub state: u8,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    pub flags: u64,
    /// User and system time, and those of waited-for children, in hundredths of a
    /// second.
    pub times: [u64; 4],
    pub nice: i8,
    pub pending: u64,
    pub blocked: u64,
}

impl Facts {
    /// Reads all of them.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn read(pid: i32, threads: &[CoreThread]) -> io::Result<Self> {
        let of_process = format!("/proc/{pid}");
        let of_thread = threads.first().map_or_else(
            || of_process.clone(),
            |thread| format!("/proc/{}", thread.tid),
        );
        let number = |key| {
            let value = status_field(pid, key).unwrap_or_default();
            let first = value.split_ascii_whitespace().next();
            first.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let mut arguments = fs::read(format!("{of_thread}/cmdline")).unwrap_or_default();
        if arguments.last() == Some(&0) {
            arguments.pop();
        }
        for byte in &mut arguments {
            if *byte == 0 {
                *byte = b' ';
            }
        }
        let auxv = format!("{of_thread}/auxv");
        Ok(Self {
            pid,
            process: Stat::read(&of_process, pid),
            threads: threads
                .iter()
                .map(|thread| Stat::read(&format!("{of_process}/task/{}", thread.tid), thread.tid))
                .collect(),
            uid: number("Uid:"),
            gid: number("Gid:"),
            arguments,
            // Without it a debugger finds neither the program nor its libraries.
            auxv: fs::read(&auxv)
                .map_err(|error| io::Error::new(error.kind(), format!("{auxv}: {error}")))?,
        })
    }
}

impl Stat {
    /// Reads them from `/proc/PID` or `/proc/PID/task/TID`.
    fn read(folder: &str, tid: i32) -> Self {
        let mut stat = fs::read(format!("{folder}/stat"))
            .ok()
            .and_then(|line| Self::parse(&line))
            .unwrap_or_default();
        let set = |key| {
            let value = status_field(tid, key).unwrap_or_default();
            u64::from_str_radix(&value, 16).unwrap_or(0)
        };
        stat.pending = set("SigPnd:");
        stat.blocked = set("SigBlk:");
        stat
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let line = StatLine::parse(line)?;
        let time = |number| line.field(number)?.parse().ok();
        Some(Self {
            name: line.name.to_vec(),
            state: *line.field(3)?.as_bytes().first()?,
            parent: line.field(4)?.parse().ok()?,
            group: line.field(5)?.parse().ok()?,
            session: line.field(6)?.parse().ok()?,
            flags: line.field(9)?.parse().ok()?,
            times: [time(14)?, time(15)?, time(16)?, time(17)?],
            nice: line.field(19)?.parse().ok()?,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_any_name_is_taken_apart() {
        let line = b"12 (a) b (c) T 3 4 5 6 7 4194304 8 9 10 11 21 22 23 24 20 -5 1 0\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(
            stat,
            Stat {
                name: b"a) b (c".to_vec(),
                state: b'T',
                parent: 3,
                group: 4,
                session: 5,
                flags: 4_194_304,
                times: [21, 22, 23, 24],
                nice: -5,
                ..Stat::default()
            }
        );
        for cut in 0..line.len() - 8 {
            let _ = Stat::parse(&line[..cut]);
        }
        assert_eq!(Stat::parse(b")("), None);
    }
}
