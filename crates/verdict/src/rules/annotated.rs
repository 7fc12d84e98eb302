//! What the user says in the file of annotations: benign for a reason, or to be ignored. What is
//! said to be protected by a lock leans the other way: two accesses met, so it is not.
//!
//! Time stamps, hints and other values of which either will do cannot be told from the code; for
//! them this rule is the only one. It is wrong if the user is.

use super::{benign, harmful};
use crate::annotations::Says;
use crate::subject::Subject;
use redhanded_model::{ANNOTATED_BENIGN, ANNOTATED_PROTECTED, Leaning};

pub const NAME: &str = ANNOTATED_BENIGN;

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    subject
        .annotations
        .of(subject.race)
        .find_map(|says| match says {
            Says::Benign(reason) => benign(NAME, vec![reason.to_owned()]),
            Says::Ignore => benign(NAME, vec!["to be ignored".to_owned()]),
            Says::ProtectedBy(lock) => harmful(
                ANNOTATED_PROTECTED,
                vec![format!(
                    "said to be protected by {lock}, and yet two accesses met"
                )],
            ),
            Says::Reused => None,
        })
}
