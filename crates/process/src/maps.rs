//! The memory map of a process, as `/proc/PID/maps` tells it.

use std::fs;
use std::path::PathBuf;

/// One line of the map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub writable: bool,
    pub executable: bool,
    pub shared: bool,
    pub offset: u64,
    /// Device and inode of the file behind it; memory that is shared without a
    /// name has one, too.
    pub file_id: (String, u64),
    pub name: String,
}

impl Mapping {
    /// The file behind it, if there is one that still exists under its name.
    pub fn file(&self) -> Option<PathBuf> {
        (self.name.starts_with('/') && !self.name.ends_with(" (deleted)"))
            .then(|| PathBuf::from(&self.name))
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The map of `pid`; empty when it is gone.
pub fn read(pid: i32) -> Vec<Mapping> {
    fs::read(format!("/proc/{pid}/maps")).map_or_else(
        |_| Vec::new(),
        |text| {
            String::from_utf8_lossy(&text)
                .lines()
                .filter_map(parse_line)
                .collect()
        },
    )
}

/// The writable mappings of `pid` that others may map too.
pub fn shared(pid: i32) -> Vec<Mapping> {
    let mut maps = read(pid);
    maps.retain(|map| map.shared && map.writable);
    maps
}

/// The other processes that map what `pid` has mapped shared at `address`, as far
/// as they may be looked at.
pub fn sharers(pid: i32, address: u64) -> Vec<i32> {
    let here = shared(pid).into_iter().find(|map| map.contains(address));
    let Some(here) = here.filter(|map| map.file_id.1 != 0) else {
        return Vec::new();
    };
    let at = here.offset + (address - here.start);
    let maps_it = |other: &i32| {
        shared(*other).iter().any(|map| {
            map.file_id == here.file_id
                && (map.offset..map.offset + (map.end - map.start)).contains(&at)
        })
    };
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut sharers: Vec<i32> = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|other| *other != pid)
        .filter(maps_it)
        .take(MOST_SHARERS)
        .collect();
    sharers.sort_unstable();
    sharers
}

/// More names of processes tell nothing new.
const MOST_SHARERS: usize = 4;

fn parse_line(line: &str) -> Option<Mapping> {
    // start-end perms offset dev inode          name (may hold spaces)
    let mut rest = line;
    let mut field = || {
        let trimmed = rest.trim_start();
        let (field, after) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        rest = after;
        field
    };
    let (start, end) = field().split_once('-')?;
    let permissions = field();
    let offset = field();
    let (device, inode) = (field(), field());
    let name = rest.trim_start().to_owned();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        writable: permissions.contains('w'),
        executable: permissions.contains('x'),
        shared: permissions.ends_with('s'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        file_id: (device.to_owned(), inode.parse().unwrap_or(0)),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let map = parse_line("7f00-7f80 r-xp 00002000 fe:00 1234       /opt/my app/x.so (deleted)")
            .unwrap();
        assert_eq!((map.start, map.end, map.offset), (0x7f00, 0x7f80, 0x2000));
        assert!(map.executable && !map.writable && !map.shared);
        assert_eq!(map.name, "/opt/my app/x.so (deleted)");
        assert_eq!(map.file(), None);
        let anonymous = parse_line("1000-2000 rw-s 00000000 00:00 0 ").unwrap();
        assert!(anonymous.shared && anonymous.name.is_empty());
        assert!(parse_line("nonsense").is_none());
    }

    #[test]
    fn the_own_map_holds_the_own_code() {
        let here = the_own_map_holds_the_own_code as *const () as u64;
        let maps = read(std::process::id().try_into().unwrap());
        let map = maps.iter().find(|map| map.contains(here)).unwrap();
        assert!(map.executable && map.file().is_some());
    }
}
