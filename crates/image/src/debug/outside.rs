//! Accesses whose index leads out of a global array, into another variable.
//!
//! The bytes say which variable that is, and nothing of the array. The array is known only if
//! the instruction and the source both name it: compilers may count the indices of one array from
//! another one, and the line of an instruction may be that of another.

use super::evidence::{Text, unscoped};
use super::expression::choose::Wanted;
use super::expression::walk::{Base, Candidate, TextMarking};
use super::origin::Origin;
use super::pointers::{self, Named};
use super::types::Spelling;
use super::{Inner, source_frames};
use crate::{Access, Instruction};
use redhanded_model::{Doubt, Svma};
use std::sync::Arc;

impl Inner {
    /// The element that the access at `svma` means, if the `size` bytes at `data` are those of
    /// another variable than its array's.
    pub(super) fn outside(self: &Arc<Self>, svma: Svma, data: Svma, size: u64) -> Option<Named> {
        let there = self.typed_variable(data)?;
        let (start, length) = pointers::pointed_at(self, svma)?.array()?;
        let array = self.typed_variable(Svma(start))?;
        let whole = self.ask(|program| program.size_of(array.kind()?))?;
        let is_beside = data.0.checked_add(size)? <= start || data.0 >= start.checked_add(whole)?;
        if array.svma.0 != start || !is_beside {
            return None;
        }
        let names = (unscoped(&array.name), unscoped(&there.name));
        if names.0 == names.1 || !self.means_element(svma, &names.0, &names.1) {
            return None;
        }
        let mut named = pointers::pointed_at(self, svma)?.any_part(size, "")?;
        if named.doubtful {
            return None;
        }
        // Of an array of arrays, nobody knows the other indices.
        let plain = format!("{}[…]", array.name);
        if let Some(expression) = &mut named.expression
            && expression.starts_with(&plain)
        {
            let distance = data.0.cast_signed().checked_sub(start.cast_signed())?;
            let index = distance.checked_div_euclid(i64::try_from(length).ok()?)?;
            *expression = expression.replacen("[…]", &format!("[{index}]"), 1);
        }
        Some(named)
    }

    /// Whether the source makes the access at `svma` to an element of `array`, and cannot mean
    /// `other` there.
    fn means_element(self: &Arc<Self>, svma: Svma, array: &str, other: &str) -> bool {
        let access = || -> Option<Access> {
            let instruction = Instruction::decode(self.code_at(svma)?, svma.0)?;
            instruction.sampled_access().copied()
        };
        let Some(access) = access() else { return false };
        let told = self.ask(|program| {
            // What was inlined may have the line of the code around it.
            let frames = program.about(svma, |context| source_frames(context, svma))?;
            let Origin::At(place) = self.origin(program, svma) else {
                return None;
            };
            let unit = program.unit_at(svma)?;
            let spelling = program.unit_spelling(unit)?;
            if frames.len() != 1 || !matches!(spelling, Spelling::C | Spelling::Cpp) {
                return None;
            }
            let text = Text::new(self, program, unit, spelling, &place);
            let [here, everywhere] = text.around()?;
            let base = |candidate: &Candidate| candidate.place.as_ref().map(|it| it.base.clone());
            if everywhere
                .iter()
                .any(|candidate| base(candidate) == Some(Base::Global(other.to_owned())))
            {
                return None;
            }
            let wanted = Wanted::any(access);
            let calls =
                |candidate: &&Candidate| candidate.marking == TextMarking::Unknown(Doubt::Folded);
            let mut possible = here
                .iter()
                .filter(|candidate| wanted.is_possible(program, candidate) && !calls(candidate));
            let means = |candidate: &Candidate| {
                let place = candidate.place.as_ref();
                place.is_some_and(|place| {
                    place.index.is_some() && place.base == Base::Global(array.to_owned())
                })
            };
            let is_other = |candidate: &Candidate| {
                matches!(base(candidate), Some(Base::Global(_) | Base::Local))
            };
            let is_meant = possible.clone().any(means);
            Some(is_meant && possible.all(|candidate| means(candidate) || is_other(candidate)))
        });
        told.unwrap_or(false)
    }
}
