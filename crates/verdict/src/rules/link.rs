//! A link of a list or a tree, by the name of the member.
//!
//! Goes by names such as `next` and `left`, of a pointer or of eight bytes. Structures that
//! are linked without locks use atomic operations on both sides. It is wrong about a list that
//! is read without a lock on purpose (RCU), where the writer marks its store.

use super::harmful;
use crate::subject::Subject;
use redhanded_model::Leaning;

pub const NAME: &str = "link";

const LINKS: [&str; 16] = [
    "next", "prev", "previous", "head", "tail", "first", "last", "left", "right", "parent",
    "child", "link", "root", "sibling", "flink", "blink",
];

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let member = subject.member()?;
    let name = member
        .trim_start_matches(['_', 'm'])
        .trim_matches('_')
        .to_ascii_lowercase();
    let bare = name.trim_start_matches("p_");
    if !LINKS.contains(&bare) || !(subject.is_pointer() || subject.race.what.type_name.is_none()) {
        return None;
    }
    if subject.race.what.size != 8 || subject.sides().iter().any(|side| side.marked().is_some()) {
        return None;
    }
    harmful(
        NAME,
        vec![format!("{member} links objects with each other")],
    )
}
