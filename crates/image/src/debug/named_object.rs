//! Whether the source names the very object that an instruction accesses, so that it is read
//! there whatever else is tested.

use super::Inner;
use super::origin::Origin;
use super::program::Program;
use super::scope::bare_name;
use super::text::lexer::{is_word, tokens};
use super::text::macros::Macros;
use super::text::regions::{Region, SourceFile};
use super::types::Spelling;
use crate::Instruction;
use redhanded_model::{Expression, Register, SourceEvidence, Svma};
use std::path::Path;
use std::sync::Arc;

/// What makes a part of a macro depend on a condition.
const CONDITIONAL: [&str; 8] = ["?", "&&", "||", "if", "for", "while", "switch", "case"];

impl Inner {
    /// Whether the expression is the object's own name, or a way to it that nothing chooses, and
    /// no macro around it may hide a condition. In Rust the expressions are not examined.
    pub(super) fn names_object(self: &Arc<Self>, svma: Svma, source: &SourceEvidence) -> bool {
        let Some(expression) = &source.expression else {
            return true;
        };
        let named = self.ask(|program| {
            let unit = program.unit_at(svma)?;
            if !matches!(
                program.unit_spelling(unit),
                Some(Spelling::C | Spelling::Cpp)
            ) {
                return Some(true);
            }
            Some(
                self.is_way_fixed(svma, expression)
                    && !self.hides_condition(program, svma, unit, expression)?,
            )
        });
        named.unwrap_or(false)
    }

    /// Whether nothing chooses the object: a pointer or a reference may have been chosen among
    /// the addresses of several.
    fn is_way_fixed(self: &Arc<Self>, svma: Svma, expression: &Expression) -> bool {
        let instruction = self
            .code_at(svma)
            .and_then(|code| Instruction::decode(code, svma.0));
        let operands = || {
            let accesses = instruction.iter().flat_map(|one| one.accesses());
            accesses.map(|access| access.operand)
        };
        // In the function's own frame.
        if operands().any(|operand| operand.base == Some(Register::Rsp)) {
            return true;
        }
        let constant = operands().find_map(|operand| operand.constant());
        let mut words = expression.text.split(|c: char| !is_word(c));
        let first = words.find(|word| !word.is_empty()).unwrap_or_default();
        match constant {
            Some(at) => self.variable_at(Svma(at)).is_some_and(|variable| {
                bare_name(variable.name.rsplit("::").next().unwrap_or_default()) == first
            }),
            None => !expression.text.starts_with('*') && expression.text != first,
        }
    }

    fn hides_condition(
        &self,
        program: &Program<'_>,
        svma: Svma,
        unit: u32,
        expression: &Expression,
    ) -> Option<bool> {
        let Origin::At(place) = self.origin(program, svma) else {
            return None;
        };
        let declaring = super::evidence::declaring_unit(program, unit, &place);
        let facts = self.judge.unit(program, declaring);
        let cpp = place.library || program.unit_spelling(unit) == Some(Spelling::Cpp);
        let path = Path::new(&expression.file);
        let file = self.judge.source(path, cpp, &facts, self.built()).ok()?;
        let function = file.function(expression.line, expression.column)?;
        let macros = facts.macros(&self.judge);
        let regions = function.at(expression.line, expression.column);
        let mut regions = regions
            .into_iter()
            .filter_map(|number| function.regions.get(number));
        Some(regions.any(|region| !region.prefixes.is_empty() || expands(&file, region, macros)))
    }
}

/// Whether a macro in a statement expands to something conditional.
fn expands(file: &SourceFile, region: &Region, macros: &Macros) -> bool {
    let text = file.text.get(region.bytes.clone()).unwrap_or_default();
    let written = tokens(text, region.start);
    let (expanded, unsure) = macros.expand(&written, &|_| false);
    let conditions = |tokens: &[super::text::lexer::Token]| {
        let conditional =
            |token: &&super::text::lexer::Token| CONDITIONAL.contains(&token.text.as_str());
        tokens.iter().filter(conditional).count()
    };
    !unsure.is_empty() || conditions(&expanded) > conditions(&written)
}
