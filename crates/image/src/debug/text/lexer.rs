//! The tokens of C and C++.

/// A position in a file: line and column, from 1.
pub(in crate::debug) type Position = (u32, u32);

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::debug) enum TokenKind {
    Word,
    Number,
    Literal,
    Punctuation,
}

/// A token outside comments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) struct Token {
    pub(in crate::debug) text: String,
    pub(in crate::debug) kind: TokenKind,
    /// Where the line table places it: at the outermost macro that it comes from.
    pub(in crate::debug) at: Position,
    /// Whether it comes from a macro, or is an argument of one.
    pub(in crate::debug) expanded: bool,
}

impl Token {
    pub(in crate::debug) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(in crate::debug) fn is_word(&self) -> bool {
        self.kind == TokenKind::Word
    }
}

const LONG: [&str; 25] = [
    "<<=", ">>=", "...", "->*", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##", "::",
];

/// The tokens of a text that begins at `start`. Directives are left out.
pub(in crate::debug) fn tokens(text: &str, start: Position) -> Vec<Token> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: start.0,
        column: start.1,
    };
    let mut tokens = Vec::new();
    let mut fresh = start.1 == 1;
    let mut line = start.0;
    while let Some(next) = lexer.peek(0) {
        if lexer.line != line {
            line = lexer.line;
            fresh = true;
        }
        if next.is_whitespace() {
            lexer.skip(1);
        } else if lexer.begins("\\\n") {
            lexer.skip(2);
            line = lexer.line;
        } else if !lexer.skip_comment() {
            if next == '#' && fresh {
                lexer.skip_directive();
                continue;
            }
            fresh = false;
            tokens.push(lexer.token(next));
        }
    }
    tokens
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    column: u32,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn begins(&self, what: &str) -> bool {
        self.rest().starts_with(what)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn skip(&mut self, characters: usize) {
        for _ in 0..characters {
            let Some(next) = self.peek(0) else { return };
            self.at += next.len_utf8();
            if next == '\n' {
                self.line = self.line.saturating_add(1);
                self.column = 1;
            } else {
                // Compilers count bytes.
                let bytes = u32::try_from(next.len_utf8()).unwrap_or(1);
                self.column = self.column.saturating_add(bytes);
            }
        }
    }

    fn skip_comment(&mut self) -> bool {
        if self.begins("//") {
            while self.peek(0).is_some_and(|next| next != '\n') {
                self.skip(1);
            }
        } else if self.begins("/*") {
            self.skip(2);
            while self.peek(0).is_some() && !self.begins("*/") {
                self.skip(1);
            }
            self.skip(2);
        } else {
            return false;
        }
        true
    }

    fn skip_directive(&mut self) {
        while let Some(next) = self.peek(0) {
            if self.begins("\\\n") {
                self.skip(2);
            } else if next == '\n' {
                return;
            } else if !self.skip_comment() {
                self.skip(1);
            }
        }
    }

    fn token(&mut self, first: char) -> Token {
        let (from, at) = (self.at, (self.line, self.column));
        let kind = if first.is_alphabetic() || first == '_' {
            while self.peek(0).is_some_and(is_word) {
                self.skip(1);
            }
            if matches!(self.peek(0), Some('"' | '\'')) && self.at - from <= 3 {
                let prefix = self.text.get(from..self.at).unwrap_or_default();
                if prefix.ends_with('R') {
                    self.skip_raw();
                    TokenKind::Literal
                } else if matches!(prefix, "L" | "u" | "U" | "u8") {
                    self.skip_literal();
                    TokenKind::Literal
                } else {
                    TokenKind::Word
                }
            } else {
                TokenKind::Word
            }
        } else if first.is_ascii_digit() {
            while self
                .peek(0)
                .is_some_and(|next| is_word(next) || next == '.' || next == '\'')
            {
                let exponent = matches!(self.peek(0), Some('e' | 'E' | 'p' | 'P'));
                self.skip(1);
                if exponent && matches!(self.peek(0), Some('+' | '-')) {
                    self.skip(1);
                }
            }
            TokenKind::Number
        } else if matches!(first, '"' | '\'') {
            self.skip_literal();
            TokenKind::Literal
        } else {
            let long = LONG.iter().find(|long| self.begins(long));
            self.skip(long.map_or(1, |long| long.len()));
            TokenKind::Punctuation
        };
        Token {
            text: self.text.get(from..self.at).unwrap_or_default().to_owned(),
            kind,
            at,
            expanded: false,
        }
    }

    fn skip_literal(&mut self) {
        let quote = self.peek(0);
        self.skip(1);
        while let Some(next) = self.peek(0) {
            // A line break ends what is no literal: a single quote in text.
            if next == '\n' {
                return;
            }
            self.skip(if next == '\\' { 2 } else { 1 });
            if Some(next) == quote {
                return;
            }
        }
    }

    fn skip_raw(&mut self) {
        let rest = self.rest();
        let end = rest
            .get(1..)
            .and_then(|rest| rest.find('('))
            .filter(|open| *open <= 16)
            .and_then(|open| {
                let end = format!("){}\"", rest.get(1..=open)?);
                Some(rest.find(&end)? + end.len())
            });
        match end {
            Some(end) => {
                let stop = self.at + end;
                while self.at < stop && self.peek(0).is_some() {
                    self.skip(1);
                }
            }
            None => self.skip_literal(),
        }
    }
}

pub(in crate::debug) fn is_word(next: char) -> bool {
    next.is_alphanumeric() || next == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text, (1, 1)).into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn comments_and_directives_are_left_out() {
        assert_eq!(
            words("a->b /* x */ += 1.5e-3; // y\n#define z\nc"),
            ["a", "->", "b", "+=", "1.5e-3", ";", "c"]
        );
        assert_eq!(words("std::x"), ["std", "::", "x"]);
        assert_eq!(
            words("x = R\"q(\n)\" )q\"; 'a' L\"b\""),
            ["x", "=", "R\"q(\n)\" )q\"", ";", "'a'", "L\"b\""]
        );
    }

    #[test]
    fn positions_count_bytes() {
        let found = tokens("é /*\n*/ x", (5, 3));
        assert_eq!(found[0].at, (5, 3));
        assert_eq!(found[1].at, (6, 4));
    }

    proptest! {
        #[test]
        fn any_text_has_tokens(text in "[a-zé#\"'/*\\\\(){};\n R0-9.+]{0,200}") {
            let _ = tokens(&text, (1, 1));
        }
    }
}
