//! C and C++ source text, as far as it is needed to judge an access: tokens grouped into
//! statements, `#pragma omp atomic`, and macro definitions.
//!
//! This is not a parser. A statement is the text between `;`, `{` and `}`, and the head of an
//! `if`, `while`, `for` or `switch` is a statement of its own.

use std::collections::{HashMap, HashSet};

/// A token outside comments and literals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) text: String,
    line: u32,
    column: u32,
    statement: u32,
}

/// A file, split into statements.
#[derive(Default)]
pub(super) struct Source {
    tokens: Vec<Token>,
    /// Statements under `#pragma omp atomic`.
    atomic: HashSet<u32>,
    /// The words in the body of each macro.
    macros: HashMap<String, Vec<String>>,
}

/// A statement, or several that cannot be distinguished.
pub(super) struct Statement<'s> {
    pub(super) tokens: Vec<&'s str>,
    pub(super) omp_atomic: bool,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let mut source = Self::default();
        let mut cutter = Cutter::default();
        let mut pending: Option<String> = None;
        for line in Lines::new(text) {
            match line {
                Line::Directive(directive) => {
                    source.directive(&directive, &mut pending);
                }
                Line::Token { text, line, column } => {
                    if pending.take().is_some() {
                        cutter.begin_atomic(text);
                    }
                    let (statement, atomic) = cutter.place(text);
                    if atomic {
                        source.atomic.insert(statement);
                    }
                    source.tokens.push(Token {
                        text: text.to_owned(),
                        line,
                        column,
                        statement,
                    });
                }
            }
        }
        source
    }

    fn directive(&mut self, text: &str, pending: &mut Option<String>) {
        let words = words(text);
        let mut words = words.iter().map(String::as_str);
        match words.next() {
            Some("define") => {
                if let Some(name) = words.next() {
                    let body = words.map(str::to_owned).collect();
                    self.macros.entry(name.to_owned()).or_insert(body);
                }
            }
            Some("pragma") if words.next() == Some("omp") && words.next() == Some("atomic") => {
                *pending = Some(String::new());
            }
            _ => {}
        }
    }

    /// The words in the body of a macro that this file defines.
    pub(super) fn macro_words(&self, name: &str) -> Option<&[String]> {
        self.macros.get(name).map(Vec::as_slice)
    }

    /// The statements on a line: with a column, the one there; without, all that are partly
    /// on the line. Empty if the file has no code there.
    pub(super) fn statements(&self, line: u32, column: Option<u32>) -> Vec<Statement<'_>> {
        let start = self.tokens.partition_point(|token| token.line < line);
        let end = self.tokens.partition_point(|token| token.line <= line);
        let on_line = self.tokens.get(start..end).unwrap_or_default();
        let mut numbers: Vec<u32> = match column {
            Some(column) => on_line
                .iter()
                .rev()
                .find(|token| token.column <= column)
                .or(on_line.first())
                .map(|token| token.statement)
                .into_iter()
                .collect(),
            None => on_line.iter().map(|token| token.statement).collect(),
        };
        numbers.dedup();
        let statements = numbers.into_iter().map(|number| self.statement(number));
        match column {
            Some(_) => statements.collect(),
            // The head of a function or a brace, where nothing is accessed.
            None => statements
                .filter(|statement| {
                    !matches!(
                        statement.tokens.as_slice(),
                        ["{" | "}" | ";"] | [.., ")", "{"]
                    )
                })
                .collect(),
        }
    }

    fn statement(&self, number: u32) -> Statement<'_> {
        // Statements, including heads, are numbered in order.
        let start = self.tokens.partition_point(|t| t.statement < number);
        let end = self.tokens.partition_point(|t| t.statement <= number);
        Statement {
            tokens: self
                .tokens
                .get(start..end)
                .unwrap_or_default()
                .iter()
                .map(|token| token.text.as_str())
                .collect(),
            omp_atomic: self.atomic.contains(&number),
        }
    }
}

/// Assigns statement numbers to tokens.
#[derive(Default)]
struct Cutter {
    statement: u32,
    /// For each open parenthesis, whether it is the head of a control statement.
    parentheses: Vec<bool>,
    control: bool,
    atomic: Option<Atomic>,
}

/// How far `#pragma omp atomic` reaches.
struct Atomic {
    braces: usize,
    block: bool,
}

impl Cutter {
    fn begin_atomic(&mut self, first: &str) {
        self.statement += 1;
        self.atomic = Some(Atomic {
            braces: 0,
            block: first == "{",
        });
    }

    fn place(&mut self, text: &str) -> (u32, bool) {
        let number = self.statement;
        let atomic = self.atomic.is_some();
        let mut cut = false;
        match text {
            "(" => self.parentheses.push(self.control),
            ")" => cut = self.parentheses.pop() == Some(true),
            ";" | "{" | "}" => cut = true,
            "else" | "do" => cut = true,
            _ => {}
        }
        self.control = matches!(text, "if" | "while" | "for" | "switch")
            || (self.control && text == "constexpr");
        if let Some(reach) = &mut self.atomic {
            match text {
                "{" => reach.braces += 1,
                "}" => reach.braces = reach.braces.saturating_sub(1),
                _ => {}
            }
            let done = if reach.block {
                text == "}" && reach.braces == 0
            } else {
                text == ";"
            };
            if done {
                self.atomic = None;
            }
        }
        if cut {
            self.statement += 1;
        }
        (number, atomic)
    }
}

enum Line<'t> {
    Directive(String),
    Token {
        text: &'t str,
        line: u32,
        column: u32,
    },
}

/// Reads tokens and directives, without comments and literals.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    line_start: usize,
    fresh: bool,
}

impl<'t> Lines<'t> {
    const fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            line_start: 0,
            fresh: true,
        }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text
            .as_bytes()
            .get(self.at + ahead)
            .copied()
            .unwrap_or(0)
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    fn done(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips a comment, and returns whether there was one.
    fn comment(&mut self) -> bool {
        match (self.byte(0), self.byte(1)) {
            (b'/', b'/') => {
                while !self.done() && self.byte(0) != b'\n' {
                    self.at += 1;
                }
                true
            }
            (b'/', b'*') => {
                self.at += 2;
                while !self.done() && (self.byte(0), self.byte(1)) != (b'*', b'/') {
                    if self.byte(0) == b'\n' {
                        self.newline();
                    } else {
                        self.at += 1;
                    }
                }
                self.at = (self.at + 2).min(self.text.len());
                true
            }
            _ => false,
        }
    }

    /// Skips a literal; its opening quote is here.
    fn literal(&mut self) {
        let quote = self.byte(0);
        self.at += 1;
        while !self.done() {
            match self.byte(0) {
                b'\\' => self.at += 1,
                // Unterminated: a single quote in text that is not code.
                b'\n' => return,
                byte if byte == quote => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            if self.byte(0) == b'\n' {
                self.newline();
            } else {
                self.at += 1;
            }
        }
    }

    /// Skips `R"tag( … )tag"`, and returns whether there was one.
    fn raw_literal(&mut self) -> bool {
        let Some(rest) = self.text.get(self.at..).and_then(|t| t.strip_prefix("R\"")) else {
            return false;
        };
        let Some(open) = rest.find('(').filter(|at| *at <= 16) else {
            return false;
        };
        let end = format!("){}\"", rest.get(..open).unwrap_or_default());
        let Some(len) = rest.find(&end) else {
            return false;
        };
        let stop = self.at + 2 + len + end.len();
        while self.at < stop {
            if self.byte(0) == b'\n' {
                self.newline();
            } else {
                self.at += 1;
            }
        }
        true
    }

    fn directive(&mut self) -> String {
        let mut text = String::new();
        self.at += 1;
        while !self.done() && self.byte(0) != b'\n' {
            if self.byte(0) == b'\\' && self.byte(1) == b'\n' {
                self.at += 1;
                self.newline();
                text.push(' ');
            } else if self.comment() {
                text.push(' ');
            } else if matches!(self.byte(0), b'"' | b'\'') {
                self.literal();
                text.push(' ');
            } else {
                let Some(next) = self.text.get(self.at..).and_then(|t| t.chars().next()) else {
                    self.at += 1;
                    continue;
                };
                text.push(next);
                self.at += next.len_utf8();
            }
        }
        text
    }
}

impl<'t> Iterator for Lines<'t> {
    type Item = Line<'t>;

    fn next(&mut self) -> Option<Line<'t>> {
        loop {
            if self.done() {
                return None;
            }
            match self.byte(0) {
                b'\n' => {
                    self.newline();
                    self.fresh = true;
                }
                b'#' if self.fresh => return Some(Line::Directive(self.directive())),
                byte if byte.is_ascii_whitespace() => self.at += 1,
                b'/' if self.comment() => {}
                b'R' if self.raw_literal() => {}
                b'"' | b'\'' => self.literal(),
                first => {
                    self.fresh = false;
                    let start = self.at;
                    if is_word(first) {
                        while is_word(self.byte(0))
                            || (first.is_ascii_digit() && self.byte(0) == b'\'')
                        {
                            self.at += 1;
                        }
                    } else if matches!((first, self.byte(1)), (b'-', b'>') | (b':', b':')) {
                        self.at += 2;
                    } else {
                        self.at += 1;
                        while !self.text.is_char_boundary(self.at) {
                            self.at += 1;
                        }
                    }
                    let column = u32::try_from(start - self.line_start + 1).unwrap_or(u32::MAX);
                    return Some(Line::Token {
                        text: self.text.get(start..self.at).unwrap_or_default(),
                        line: self.line,
                        column,
                    });
                }
            }
        }
    }
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a token is an identifier or keyword.
pub(super) fn is_identifier(token: &str) -> bool {
    token
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
}

/// The identifiers in a text, outside comments and literals.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| is_identifier(word))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str, line: u32, column: Option<u32>) -> Vec<String> {
        Source::read(text)
            .statements(line, column)
            .iter()
            .map(|statement| statement.tokens.join(" "))
            .collect()
    }

    #[test]
    fn a_head_and_its_body_are_two_statements() {
        let text = "void f() {\n  while (!load(&stop)) plain++;\n}\n";
        assert_eq!(at(text, 2, Some(24)), ["plain + + ;"]);
        assert_eq!(at(text, 2, Some(10)), ["while ( ! load ( & stop ) )"]);
        assert_eq!(at(text, 2, None).len(), 2);
        assert_eq!(at("int f() { return 1; }", 1, None), ["return 1 ;"]);
    }

    #[test]
    fn a_statement_has_all_its_lines() {
        let text = "x =\n  load(\n    &a);\ny = 1;\n";
        for line in 1..=3 {
            assert_eq!(at(text, line, None), ["x = load ( & a ) ;"]);
        }
        assert_eq!(at(text, 4, None), ["y = 1 ;"]);
    }

    #[test]
    fn comments_and_literals_say_nothing() {
        let text = "a = 1; // volatile\n/* volatile\n volatile */ b = \"vo\\\"latile\";\nc = 'v';\nd = R\"x(\nvolatile)x\";\n";
        for line in 1..=6 {
            assert!(!at(text, line, None).concat().contains("volatile"));
        }
        assert_eq!(at(text, 3, None), ["b = ;"]);
    }

    #[test]
    fn the_reach_of_an_atomic_pragma() {
        let text = "#pragma omp atomic read\nv = x;\nw = x;\n#pragma omp atomic capture\n{ v = x; x += 1; }\nw = v;\n";
        let source = Source::read(text);
        let atomic = |line| source.statements(line, None).iter().any(|s| s.omp_atomic);
        assert!(atomic(2) && !atomic(3) && atomic(5) && !atomic(6));
    }

    #[test]
    fn a_macro_may_span_lines() {
        let source =
            Source::read("#define READ(x) \\\n  (*(volatile int *)&(x)) /* c */\nint y;\n");
        let words = source.macro_words("READ").unwrap();
        assert!(words.iter().any(|word| word == "volatile"));
        assert_eq!(source.statements(3, None)[0].tokens, ["int", "y", ";"]);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "[a-zé#\"'/*\\\\(){};\n R]{0,200}", line in 0u32..20) {
            let source = Source::read(&text);
            source.statements(line, None);
            source.statements(line, Some(3));
        }
    }
}
