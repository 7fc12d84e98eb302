//! The tokens of a statement as a text that the parser takes.

use crate::debug::text::lexer::{Position, Token};

/// Tokens joined to a function that the parser takes.
pub(super) struct Fragment {
    pub(super) text: String,
    starts: Vec<(usize, Position)>,
    /// The tokens in each `typeof`.
    pub(super) typeofs: Vec<Vec<Token>>,
}

const BEFORE: &str = "void f(void) { ";

impl Fragment {
    pub(super) fn new(tokens: &[Token]) -> Self {
        let mut fragment = Self {
            text: BEFORE.to_owned(),
            starts: Vec::new(),
            typeofs: Vec::new(),
        };
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            fragment.starts.push((fragment.text.len(), token.at));
            let is_typeof = matches!(
                token.text.as_str(),
                "typeof" | "__typeof__" | "__typeof" | "typeof_unqual"
            );
            match matching(tokens, at).filter(|_| is_typeof) {
                Some(end) => {
                    let inside = tokens.get(at + 1..end).unwrap_or_default().to_vec();
                    fragment
                        .text
                        .push_str(&format!("{TYPEOF}{} ", fragment.typeofs.len()));
                    fragment.typeofs.push(inside);
                    at = end + 1;
                }
                None => {
                    fragment.text.push_str(&token.text);
                    fragment.text.push(' ');
                }
            }
        }
        fragment.text.push_str("\n; }");
        fragment
    }

    pub(super) fn position(&self, byte: usize) -> Position {
        let after = self.starts.partition_point(|(start, _)| *start <= byte);
        after
            .checked_sub(1)
            .and_then(|at| self.starts.get(at))
            .map_or((0, 0), |(_, position)| *position)
    }
}

/// What stands for a `typeof`, followed by its number.
pub(super) const TYPEOF: &str = "redhanded_typeof_";

/// Where the parenthesis at `open` is closed.
fn matching(tokens: &[Token], open: usize) -> Option<usize> {
    tokens.get(open).filter(|token| token.is("("))?;
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}
