//! What the user says in the file of annotations: benign for a reason, or to be ignored; or that
//! a lock of the program's own protects the bytes.
//!
//! Time stamps, hints and other values of which either will do cannot be told from the code; for
//! them this rule is the only one. It is wrong if the user is.
//!
//! A lock that is said to protect the bytes leans to harm where two accesses met, and where
//! nothing in a recording orders them, because a lock is made of something that would. If the
//! lockset analysis alone suspects a pair, a lock that it does not know explains why: a hint, since
//! the lock may have been forgotten there. A pair that is suspected for another reason stays as it is.

use super::{benign, harmful};
use crate::annotations::Says;
use crate::subject::Subject;
use redhanded_model::{ANNOTATED_BENIGN, ANNOTATED_PROTECTED, Leaning, Leans, RaceStanding};

pub const NAME: &str = ANNOTATED_BENIGN;

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    subject
        .annotations
        .of(subject.race)
        .find_map(|says| match says {
            Says::Benign(reason) => benign(NAME, vec![reason.to_owned()]),
            Says::Ignore => benign(NAME, vec!["to be ignored".to_owned()]),
            Says::ProtectedBy(lock) => protected(subject, lock),
            Says::Reused => None,
        })
}

fn protected(subject: &Subject<'_>, lock: &str) -> Option<Leaning> {
    let said = |why: &str| vec![format!("said to be protected by {lock}, {why}")];
    let analysed = subject.race.analysed.as_ref();
    match analysed.map(|analysed| analysed.standing) {
        None | Some(RaceStanding::Caught) => {
            harmful(ANNOTATED_PROTECTED, said("and yet two accesses met"))
        }
        Some(RaceStanding::Unordered) => harmful(
            ANNOTATED_PROTECTED,
            said("and yet nothing in the recording orders the two accesses"),
        ),
        Some(RaceStanding::Suspect) if subject.race.is_by_locks_alone() => Some(Leaning::hint(
            ANNOTATED_PROTECTED,
            Leans::Benign,
            said("which the analysis may not know, and no two accesses were seen to meet"),
        )),
        Some(RaceStanding::Suspect) => None,
    }
}
