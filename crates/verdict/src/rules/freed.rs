//! An allocator gave the block back while an access stood at it, or the memory was unmapped; or, in a
//! recording, nothing orders the two.
//!
//! Goes by the class rule of the same name. Nothing speaks against it: whatever the access is,
//! it is one to memory that is no longer its own. It is wrong where a pool of the program's own
//! hands out blocks that may be read after they were given back.

use super::harmful;
use crate::subject::Subject;
use redhanded_model::{Leaning, SeenBy};

pub const NAME: &str = "freed-while-it-stood";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    if !subject.race.is_freed() {
        return None;
    }
    if subject.race.is_unmapped() {
        let unmapped = "the memory was unmapped between the decision to access it and the access";
        return harmful(NAME, vec![unmapped.to_owned()]);
    }
    let by = subject
        .race
        .accesses
        .iter()
        .find_map(|access| access.freed_by.as_deref());
    let by = by.unwrap_or("an allocator");
    let when = match subject.race.seen_by {
        SeenBy::Analysis => "in no order with the access",
        SeenBy::Watch | SeenBy::Value => "between the decision to access it and the access",
    };
    harmful(NAME, vec![format!("{by} gave the block back {when}")])
}
