//! The conditions under which the source makes an access, in its own function and in those that
//! it was inlined into.

use super::{Inner, SourceFrame};
use crate::ahead::PlacedCondition;
use redhanded_model::{SourceEvidence, Svma};
use std::path::Path;

impl Inner {
    /// The conditions around an access, innermost first.
    pub(super) fn conditions(
        &self,
        svma: Svma,
        source: &SourceEvidence,
        frames: &[SourceFrame],
    ) -> Vec<PlacedCondition> {
        let callers = frames.iter().skip(1);
        let own = source.expression.as_ref().map_or_else(
            || {
                let frame = frames.first();
                frame.and_then(|frame| Some((frame.file.as_deref()?, frame.line?, frame.column)))
            },
            |expression| Some((expression.file.as_str(), expression.line, expression.column)),
        );
        let calls =
            callers.filter_map(|frame| Some((frame.file.as_deref()?, frame.line?, frame.column)));
        let found = self.ask(|program| {
            let unit = program.unit_at(svma)?;
            let mut found = Vec::new();
            for (file, line, column) in own.into_iter().chain(calls) {
                let around = self
                    .judge
                    .conditions(program, unit, Path::new(file), (line, column));
                found.extend(around.into_iter().map(|condition| PlacedCondition {
                    file: file.to_owned(),
                    start: condition.start,
                    end: condition.end,
                    sign: condition.sign,
                    entered: condition.entered,
                }));
            }
            Some(found)
        });
        found.unwrap_or_default()
    }
}
