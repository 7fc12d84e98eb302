//! A variable that is accessed without a lock by design, from the list that comes with
//! Redhanded. A user's own are annotations.
//!
//! Goes by the name of a kernel's variable. It is wrong if a new kernel uses it otherwise.

use super::benign;
use crate::subject::Subject;
use redhanded_model::Leaning;

pub const NAME: &str = "special-variable";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    benign(NAME, vec![subject.race.special.clone()?])
}
