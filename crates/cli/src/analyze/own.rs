//! The program's own locks and allocators, as annotations have them.

use redhanded_analysis::Mode;
use redhanded_model::Unseen;
use redhanded_recording::Item;
use redhanded_recording::translate::{Lock, Own, Owns, Size};
use redhanded_recording::wire::{FIRST_OWN, Kind};
use redhanded_verdict::{Annotations, Does, Of};
use std::collections::HashSet;

/// Locks without an address have the numbers from here on, where no lock can be.
const FIRST_NUMBER: u64 = 16;

/// Whether an item is the call of such a function, or its return.
pub fn is_own_call(item: &Item) -> bool {
    let is_call = matches!(item.entry.kind, Kind::Call | Kind::Return);
    is_call && item.entry.address >= FIRST_OWN
}

/// What annotations say of a recording's functions.
pub struct Functions<'a> {
    annotations: &'a Annotations,
    hooked: &'a [String],
    pub owns: Owns,
    called: HashSet<u64>,
}

impl<'a> Functions<'a> {
    /// Of the functions that the recorder hooked.
    pub fn new(annotations: &'a Annotations, hooked: &'a [String]) -> Self {
        let mut names: Vec<&str> = annotations
            .functions()
            .filter_map(|(.., of)| match of {
                Of::Name(name) => Some(name.as_str()),
                Of::Argument(_) | Of::Bytes(_) => None,
            })
            .collect();
        names.sort_unstable();
        let says = |function: &str| {
            let mut all = annotations.functions();
            let (_, does, of) = all.find(|(name, ..)| *name == function)?;
            meaning(does, of, &names)
        };
        Self {
            annotations,
            hooked,
            owns: Owns::new(hooked, says),
            called: HashSet::new(),
        }
    }

    /// Takes note of those that were called.
    pub fn note(&mut self, called: &HashSet<u64>) {
        self.called.extend(called);
    }

    /// What an analysis could not know, because no call of a function is in the recording.
    pub fn unseen(&self) -> Vec<Unseen> {
        let why = |name: &str| {
            let Some(index) = self.hooked.iter().position(|hooked| hooked == name) else {
                return Some("the recording was made without this annotation");
            };
            let was_called = self.called.contains(&(FIRST_OWN + index as u64));
            (!was_called).then_some(
                "no call of it was recorded: it has no symbol of this name, is inlined, or was never \
                 called",
            )
        };
        let functions = self.annotations.functions();
        let unseen = functions.filter_map(|(name, ..)| {
            Some(Unseen {
                what: format!("the annotated function {name}"),
                why: why(name)?.to_owned(),
            })
        });
        unseen.collect()
    }
}

fn meaning(does: Does, of: &Of, names: &[&str]) -> Option<Own> {
    let lock = || match of {
        Of::Argument(number) => Some(Lock::Argument(number.checked_sub(1)?)),
        Of::Name(name) => {
            let at = names.iter().position(|known| known == name)?;
            Some(Lock::Numbered(FIRST_NUMBER + at as u64))
        }
        Of::Bytes(_) => None,
    };
    Some(match (does, of) {
        (Does::Locks, _) => Own::Locks(lock()?, Mode::Exclusive),
        (Does::ReadLocks, _) => Own::Locks(lock()?, Mode::Shared),
        (Does::Unlocks, _) => Own::Unlocks(lock()?),
        (Does::Allocates, Of::Bytes(bytes)) => Own::Allocates(Size::Bytes(*bytes)),
        (Does::Allocates, Of::Argument(number)) => {
            Own::Allocates(Size::Argument(number.checked_sub(1)?))
        }
        (Does::Frees, Of::Argument(number)) => Own::Frees(number.checked_sub(1)?),
        (Does::Allocates | Does::Frees, _) => return None,
    })
}
