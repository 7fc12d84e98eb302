//! A value that decides where memory is accessed, how often, or how much of it, or which lock
//! guards it.
//!
//! Goes by code that uses the value as an index, for the number of a loop's turns, or passes it
//! to an allocator, to a function that copies, or to one that takes a lock or gives it back,
//! unless only bits of it matter that the writer leaves alone. It is wrong where the value is
//! within bounds whichever of the two it is, and where either lock will do.

use super::harmful;
use crate::subject::{Side, Subject};
use redhanded_model::{Leaning, Use, lock_call};

pub const NAME: &str = "steering";

const TAKES_SIZES: [&str; 12] = [
    "malloc",
    "calloc",
    "realloc",
    "aligned_alloc",
    "_Znwm",
    "_Znam",
    "memcpy",
    "memmove",
    "memset",
    "kmalloc",
    "alloca",
    "copy_",
];

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let sides = subject.sides();
    let depends = sides.iter().filter(|side| !subject.is_apart(side));
    let facts: Vec<String> = depends.filter_map(steers).collect();
    if facts.is_empty() {
        return None;
    }
    harmful(NAME, facts)
}

fn steers(side: &Side<'_>) -> Option<String> {
    let what = |used: &Use| match used {
        Use::Index => Some("is an index into memory".to_owned()),
        Use::Loop => Some("decides how often a loop runs".to_owned()),
        Use::Passed(Some(name)) if takes_size(name) => Some(format!("is passed to {name}")),
        Use::Passed(Some(name)) if lock_call(name).is_some() => {
            Some(format!("decides which lock {name} gets"))
        }
        _ => None,
    };
    let found = side.usage?.uses.iter().find_map(what)?;
    Some(format!("the value of {} {found}", side.words()))
}

fn takes_size(name: &str) -> bool {
    TAKES_SIZES.iter().any(|known| name.starts_with(known))
}
