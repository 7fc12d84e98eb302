//! SPDX licence expressions, as far as crates use them: `AND`, `OR`, `WITH`,
//! parentheses, and the old `MIT/Apache-2.0` which means `OR`.

use anyhow::{Result, bail, ensure};

/// A parsed licence expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// One licence, with its exception if any: `Apache-2.0 WITH LLVM-exception`.
    Licence(String),
    /// All of them apply.
    All(Vec<Expression>),
    /// One may be chosen.
    Any(Vec<Expression>),
}

/// Deeper nesting than any licence needs, and safe on any stack.
const DEEPEST: usize = 32;

impl Expression {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self> {
        let spaced = text
            .replace('(', " ( ")
            .replace(')', " ) ")
            .replace('/', " OR ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut parser = Parser {
            words: &words,
            at: 0,
        };
        let expression = parser.any(0)?;
        match parser.peek() {
            None => Ok(expression),
            Some(word) => bail!("`{word}` is out of place in the licence `{text}`"),
        }
    }

    /// Whether the licences that `allowed` knows are enough to use the crate.
    pub fn satisfied(&self, allowed: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Licence(name) => allowed(name),
            Self::All(parts) => parts.iter().all(|part| part.satisfied(allowed)),
            Self::Any(parts) => parts.iter().any(|part| part.satisfied(allowed)),
        }
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    /// `OR` binds more loosely than `AND`.
    fn any(&mut self, depth: usize) -> Result<Expression> {
        ensure!(depth < DEEPEST, "a licence nested {DEEPEST} deep");
        let mut parts = vec![self.all(depth)?];
        while self.take("OR") {
            parts.push(self.all(depth)?);
        }
        Ok(single(parts, Expression::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Expression> {
        let mut parts = vec![self.one(depth)?];
        while self.take("AND") {
            parts.push(self.one(depth)?);
        }
        Ok(single(parts, Expression::All))
    }

    fn one(&mut self, depth: usize) -> Result<Expression> {
        if self.take("(") {
            let inner = self.any(depth + 1)?;
            ensure!(self.take(")"), "a licence with an unclosed parenthesis");
            return Ok(inner);
        }
        let mut name = self.name()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.name()?);
        }
        Ok(Expression::Licence(name))
    }

    fn name(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(word) if !["AND", "OR", "WITH", "(", ")"].contains(&word) => {
                self.at += 1;
                Ok(word)
            }
            Some(word) => bail!("`{word}` where a licence was due"),
            None => bail!("it ends where a licence was due"),
        }
    }
}

fn single(mut parts: Vec<Expression>, many: fn(Vec<Expression>) -> Expression) -> Expression {
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => many(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(text: &str) -> bool {
        let allow = [
            "MIT",
            "Apache-2.0",
            "Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ];
        Expression::parse(text)
            .unwrap()
            .satisfied(&|name| allow.contains(&name))
    }

    #[test]
    fn one_choice_is_enough_but_all_parts_are_needed() {
        assert!(allowed("MIT"));
        assert!(!allowed("GPL-3.0-only"));
        assert!(allowed("GPL-3.0-only OR MIT"));
        assert!(!allowed("GPL-3.0-only AND MIT"));
        assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!allowed("(MIT OR Apache-2.0) AND OpenSSL"));
    }

    #[test]
    fn and_binds_more_tightly_than_or() {
        assert!(allowed("MIT OR GPL-2.0 AND GPL-3.0"));
        assert!(!allowed("(MIT OR GPL-2.0) AND GPL-3.0"));
    }

    #[test]
    fn an_exception_makes_another_licence_of_it() {
        assert!(allowed("Apache-2.0 WITH LLVM-exception"));
        assert!(!allowed("GPL-2.0 WITH Classpath-exception-2.0"));
        assert!(!allowed("MIT WITH LLVM-exception"));
    }

    #[test]
    fn the_old_slash_is_a_choice() {
        assert!(allowed("MIT/GPL-2.0"));
        assert!(allowed("GPL-2.0 / MIT"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "MIT OR", "(MIT", "MIT MIT", "AND", "MIT)", "WITH x"] {
            assert!(Expression::parse(text).is_err(), "`{text}` was accepted");
        }
        let deep = "(".repeat(10_000) + "MIT" + &")".repeat(10_000);
        assert!(Expression::parse(&deep).is_err());
    }
}
