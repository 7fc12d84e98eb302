//! Memory that a process shares with others.

use redhanded_sys::{self as sys, Mapping};
use std::fs;

/// More names would tell nothing new.
const MOST_SHARERS: usize = 4;

/// The writable mappings of `pid` that other processes may map as well.
pub fn shared(pid: i32) -> Vec<Mapping> {
    let mut maps = sys::mappings(pid);
    maps.retain(|map| map.shared && map.writable);
    maps
}

/// The other processes that map the shared memory of `pid` at `address`, as far as we
/// may see their maps.
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
