//! Where a function returns to its caller.

use crate::{Flow, Image, Instruction};
use redhanded_model::Svma;
use std::collections::BTreeSet;

/// How many functions are followed that one goes on in.
const MOST_FUNCTIONS: usize = 32;

impl Image {
    /// The `ret` instructions by which a call of the function at `start` may return: its own, and
    /// those of functions that it goes on in by jumps, also through the linkage table if the
    /// file itself defines them. These also return from other calls.
    #[must_use]
    pub fn returns_of(&self, start: Svma) -> BTreeSet<Svma> {
        let mut returns = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut left: Vec<usize> = self.functions().index_at(start).into_iter().collect();
        while let Some(index) = left.pop() {
            let Some(function) = self.functions().as_slice().get(index) else {
                continue;
            };
            if seen.len() >= MOST_FUNCTIONS || !seen.insert(index) {
                continue;
            }
            for raw in self.instructions(function) {
                let instruction = Instruction::explain(raw);
                let to = match instruction.flow() {
                    Flow::Return => {
                        returns.insert(Svma(instruction.address()));
                        continue;
                    }
                    Flow::Jump(Some(to)) | Flow::Branch(to) => Svma(to),
                    _ => continue,
                };
                if !function.contains(to) {
                    let linked = self.plt_name(to).and_then(|name| self.dynamic_symbol(name));
                    left.extend(self.functions().index_at(linked.unwrap_or(to)));
                }
            }
        }
        returns
    }
}
