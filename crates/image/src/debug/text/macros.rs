//! Macros: their definitions, from `.debug_macro` or from the text of the files, and their
//! expansion.
//!
//! The debug information of `-g3` is complete: what is not in it is no macro. Text is not: a
//! definition may be conditional, and others may be given on the command line.

use super::lexer::{Token, TokenKind, tokens};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How deep macros are expanded.
const MAX_DEPTH: usize = 64;
/// How many tokens an expansion may have.
const MAX_TOKENS: usize = 20_000;

/// A macro's parameters and body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) struct Macro {
    parameters: Option<Vec<String>>,
    body: Vec<Token>,
}

impl Macro {
    /// Reads what follows `#define`.
    pub(in crate::debug) fn parse(text: &str) -> Option<(String, Self)> {
        let text = text.trim_start();
        let end = text
            .find(|c: char| !super::lexer::is_word(c))
            .unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        let (parameters, body) = match rest.strip_prefix('(') {
            Some(rest) => {
                let (inside, body) = rest.split_once(')')?;
                let names = inside.split(',').map(str::trim);
                let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
                (Some(names.collect()), body)
            }
            None => (None, rest),
        };
        let mut body = tokens(&body.replace("\\\n", " "), (1, 2));
        for token in &mut body {
            token.at = (0, 0);
        }
        Some((name.to_owned(), Self { parameters, body }))
    }

    fn parameter(&self, name: &str) -> Option<usize> {
        let parameters = self.parameters.as_ref()?;
        parameters
            .iter()
            .position(|known| known == name || (known == "..." && name == "__VA_ARGS__"))
    }

    /// Whether it is made of numbers, operators and keywords only.
    fn is_constant(&self) -> bool {
        self.body.iter().all(|token| match token.kind {
            TokenKind::Word => CONSTANT_WORDS.contains(&token.text.as_str()),
            _ => true,
        })
    }
}

const CONSTANT_WORDS: [&str; 14] = [
    "void",
    "int",
    "unsigned",
    "signed",
    "long",
    "short",
    "char",
    "const",
    "__null",
    "nullptr",
    "size_t",
    "sizeof",
    "__extension__",
    "_Bool",
];

/// A macro definition in the debug information.
pub(in crate::debug) struct Defined {
    pub(in crate::debug) name: String,
    pub(in crate::debug) meaning: Macro,
    /// Whether a header of the system defines it.
    pub(in crate::debug) of_system: bool,
}

/// The directives of one file that matter.
#[derive(Default, Debug)]
pub(in crate::debug) struct Directives {
    definitions: Vec<(String, Definition)>,
    pub(in crate::debug) includes: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Definition {
    meaning: Macro,
    condition: Condition,
}

/// When a definition holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Condition {
    Always,
    /// In one of the branches of an `#if` that has an `#else`.
    Branch,
    /// Perhaps never.
    Perhaps,
}

impl Directives {
    pub(in crate::debug) fn read(text: &str) -> Self {
        let mut found = Self::default();
        // For each open conditional: whether it is the guard of an include, where its
        // definitions begin, and whether it has an `#else`.
        let mut open: Vec<(bool, usize, bool)> = Vec::new();
        let mut guard_possible = true;
        for line in logical_lines(text) {
            let Some(directive) = line.trim_start().strip_prefix('#') else {
                continue;
            };
            let directive = directive.trim_start();
            let (word, rest) = directive
                .split_once(|c: char| !c.is_ascii_alphabetic())
                .map_or((directive, ""), |(word, _)| {
                    (word, directive.get(word.len()..).unwrap_or_default())
                });
            match word {
                "if" | "ifdef" | "ifndef" => {
                    let guard = guard_possible && word != "ifdef" && rest.contains('_');
                    open.push((guard, found.definitions.len(), false));
                }
                "else" => {
                    if let Some(last) = open.last_mut() {
                        last.2 = true;
                    }
                }
                "endif" => {
                    if let Some((false, from, has_else)) = open.pop() {
                        for (_, definition) in found.definitions.iter_mut().skip(from) {
                            definition.condition = match (definition.condition, has_else) {
                                (Condition::Perhaps, _) | (_, false) => Condition::Perhaps,
                                _ => Condition::Branch,
                            };
                        }
                    }
                }
                "define" => {
                    if let Some((name, meaning)) = Macro::parse(rest) {
                        found.definitions.push((
                            name,
                            Definition {
                                meaning,
                                condition: Condition::Always,
                            },
                        ));
                    }
                }
                "include" | "include_next" => {
                    let name = rest.trim().trim_matches(['"', '<', '>']);
                    found
                        .includes
                        .extend(name.split(['"', '>']).next().map(str::to_owned));
                }
                _ => {}
            }
            guard_possible = false;
        }
        // Conditionals that nobody closes.
        for (_, from, _) in open {
            for (_, definition) in found.definitions.iter_mut().skip(from) {
                definition.condition = Condition::Perhaps;
            }
        }
        found
    }
}

/// Directives as the preprocessor sees them: joined at backslashes, without comments.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    let mut comment = false;
    while !rest.is_empty() {
        let mut line = String::new();
        loop {
            let (piece, after) = rest.split_once('\n').unwrap_or((rest, ""));
            rest = after;
            let piece = piece.strip_suffix('\r').unwrap_or(piece);
            let joined = piece.strip_suffix('\\');
            without_comments(joined.unwrap_or(piece), &mut comment, &mut line);
            if (joined.is_none() && !(comment && line.trim_start().starts_with('#')))
                || rest.is_empty()
            {
                break;
            }
            line.push(' ');
        }
        if line.trim_start().starts_with('#') {
            lines.push(line);
        }
    }
    lines
}

fn without_comments(piece: &str, comment: &mut bool, line: &mut String) {
    let mut rest = piece;
    let mut quote = None;
    while let Some(next) = rest.chars().next() {
        let mut step = next.len_utf8();
        if *comment {
            if rest.starts_with("*/") {
                *comment = false;
                step = 2;
                line.push(' ');
            }
        } else if let Some(mark) = quote {
            line.push(next);
            if next == '\\' {
                let escaped = rest.chars().nth(1);
                line.extend(escaped);
                step += escaped.map_or(0, char::len_utf8);
            } else if next == mark {
                quote = None;
            }
        } else if rest.starts_with("/*") {
            *comment = true;
            step = 2;
        } else if rest.starts_with("//") {
            return;
        } else {
            if matches!(next, '"' | '\'') {
                quote = Some(next);
            }
            line.push(next);
        }
        rest = rest.get(step..).unwrap_or_default();
    }
}

/// All that is known of the macros of a unit.
#[derive(Default, Debug)]
pub(in crate::debug) struct Macros {
    known: HashMap<String, Known>,
    /// Whether nothing else is a macro.
    complete: bool,
}

#[derive(Clone, Debug)]
struct Known {
    meaning: Macro,
    /// Whether one of its definitions holds in any case.
    certain: bool,
    /// Whether there are others that differ.
    conflict: bool,
    /// Whether only headers of the system define it.
    of_system: bool,
}

/// What a name is to the preprocessor.
enum Lookup<'m> {
    Macro(&'m Macro),
    Unsure,
    Nothing,
}

impl Macros {
    /// From the macro information of `-g3`.
    pub(in crate::debug) fn exact(entries: Vec<Defined>) -> Self {
        let mut macros = Self {
            complete: true,
            ..Self::default()
        };
        for entry in entries {
            macros.add(
                entry.name,
                entry.meaning,
                Condition::Always,
                entry.of_system,
            );
        }
        macros
    }

    /// From the text of all files of a unit; with each, whether it came with the system.
    pub(in crate::debug) fn of_files(files: &[(Arc<Directives>, bool)]) -> Self {
        let mut macros = Self::default();
        for (directives, of_system) in files {
            for (name, definition) in &directives.definitions {
                let condition = match definition.condition {
                    // Nobody may redefine what the system's headers define.
                    Condition::Perhaps if *of_system => Condition::Branch,
                    condition => condition,
                };
                macros.add(
                    name.clone(),
                    definition.meaning.clone(),
                    condition,
                    *of_system,
                );
            }
        }
        macros
    }

    fn add(&mut self, name: String, meaning: Macro, condition: Condition, of_system: bool) {
        let certain = condition != Condition::Perhaps;
        let known = self.known.entry(name).or_insert_with(|| Known {
            meaning: meaning.clone(),
            certain,
            conflict: false,
            of_system,
        });
        // Nothing tells definitions apart that differ, unless they are all constants.
        let alike =
            known.meaning == meaning || (known.meaning.is_constant() && meaning.is_constant());
        known.certain |= certain;
        known.conflict |= !alike;
        known.of_system &= of_system;
    }

    /// Whether nothing that is not listed is a macro.
    pub(in crate::debug) const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether there is a macro with this name.
    pub(in crate::debug) fn is_macro(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Whether something else than the system's headers defines this macro.
    pub(in crate::debug) fn is_defined_by_program(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|known| !known.of_system)
    }

    /// Whether a word in front of a statement may change what it means. It is a macro that is not
    /// known, or one that makes a pragma or a transaction of it.
    pub(in crate::debug) fn may_change_statement(&self, name: &str) -> bool {
        let mut open = vec![name];
        let mut seen = HashSet::new();
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            match self.lookup(name) {
                Lookup::Unsure => return true,
                Lookup::Nothing => {}
                Lookup::Macro(meaning) => {
                    let words = meaning.body.iter().filter(|token| token.is_word());
                    open.extend(words.map(|token| token.text.as_str()));
                }
            }
        }
        let changes = |name: &&str| *name == "_Pragma" || name.starts_with("__transaction");
        matches!(self.lookup(name), Lookup::Nothing) || seen.iter().any(changes)
    }

    fn lookup(&self, name: &str) -> Lookup<'_> {
        match self.known.get(name) {
            Some(known) if known.certain && !known.conflict => Lookup::Macro(&known.meaning),
            Some(_) => Lookup::Unsure,
            None => Lookup::Nothing,
        }
    }

    /// Expands all macros in `input`, except those that `keep` names. The names of macros
    /// whose meaning is not sure are returned, too.
    pub(in crate::debug) fn expand(
        &self,
        input: &[Token],
        keep: &dyn Fn(&str) -> bool,
    ) -> (Vec<Token>, Vec<Token>) {
        let mut expansion = Expansion {
            macros: self,
            keep,
            unsure: Vec::new(),
            active: Vec::new(),
            made: 0,
        };
        let output = expansion.run(input);
        (output, expansion.unsure)
    }
}

struct Expansion<'m> {
    macros: &'m Macros,
    keep: &'m dyn Fn(&str) -> bool,
    unsure: Vec<Token>,
    active: Vec<String>,
    made: usize,
}

impl Expansion<'_> {
    fn run(&mut self, input: &[Token]) -> Vec<Token> {
        let mut output = Vec::new();
        let mut at = 0;
        while let Some(token) = input.get(at) {
            at += 1;
            self.made += 1;
            let known = token.is_word() && !(self.keep)(&token.text);
            if !known || self.active.contains(&token.text) || self.made > MAX_TOKENS {
                output.push(token.clone());
                continue;
            }
            let meaning = match self.macros.lookup(&token.text) {
                Lookup::Macro(meaning) => meaning,
                Lookup::Unsure => {
                    self.unsure.push(token.clone());
                    output.push(token.clone());
                    continue;
                }
                Lookup::Nothing => {
                    output.push(token.clone());
                    continue;
                }
            };
            let mut arguments = Vec::new();
            if let Some(parameters) = &meaning.parameters {
                let Some((found, after)) = arguments_at(input, at, parameters) else {
                    output.push(token.clone());
                    continue;
                };
                arguments = found;
                at = after;
            }
            if self.active.len() >= MAX_DEPTH {
                self.unsure.push(token.clone());
                continue;
            }
            let place = |mut made: Token| {
                made.at = token.at;
                made.expanded = true;
                made
            };
            let arguments: Vec<Vec<Token>> = arguments
                .into_iter()
                .map(|argument| argument.into_iter().map(place).collect())
                .collect();
            let body = self.substitute(meaning, &arguments, token);
            self.active.push(token.text.clone());
            let expanded = self.run(&body);
            self.active.pop();
            output.extend(expanded);
        }
        output
    }

    fn substitute(&mut self, meaning: &Macro, arguments: &[Vec<Token>], at: &Token) -> Vec<Token> {
        let mut body: Vec<Token> = Vec::new();
        let mut position = 0;
        let mut paste = false;
        while let Some(token) = meaning.body.get(position) {
            position += 1;
            if token.is("##") {
                paste = true;
                continue;
            }
            let next = meaning.body.get(position);
            let mut made = match meaning.parameter(&token.text) {
                Some(number) => {
                    let argument = arguments.get(number).cloned().unwrap_or_default();
                    if paste || next.is_some_and(|next| next.is("##")) {
                        argument
                    } else {
                        self.run(&argument)
                    }
                }
                None if token.is("#") && meaning.parameters.is_some() => {
                    position += 1;
                    vec![Token {
                        text: "\"\"".to_owned(),
                        kind: TokenKind::Literal,
                        ..token.clone()
                    }]
                }
                None => vec![token.clone()],
            };
            for token in &mut made {
                token.at = at.at;
                token.expanded = true;
            }
            if paste && let (Some(last), Some(first)) = (body.last_mut(), made.first()) {
                last.text.push_str(&first.text);
                made.remove(0);
            }
            paste = false;
            body.extend(made);
            self.made += 1;
            if self.made > MAX_TOKENS {
                break;
            }
        }
        body
    }
}

/// The arguments of an invocation whose parenthesis is at `at`, and where it ends.
fn arguments_at(
    input: &[Token],
    at: usize,
    parameters: &[String],
) -> Option<(Vec<Vec<Token>>, usize)> {
    input.get(at).filter(|token| token.is("("))?;
    let variadic = parameters.last().is_some_and(|last| last.ends_with("..."));
    let mut depth = 0usize;
    let mut arguments = vec![Vec::new()];
    for (position, token) in input.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            "," if depth == 1 && !(variadic && arguments.len() >= parameters.len()) => {
                arguments.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            return Some((arguments, position + 1));
        }
        if position > at {
            arguments.last_mut()?.push(token.clone());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expand(source: &str, text: &str) -> (String, Vec<String>) {
        let macros = Macros::of_files(&[(Arc::new(Directives::read(source)), false)]);
        let (tokens, unsure) = macros.expand(&tokens(text, (1, 1)), &|_| false);
        let words: Vec<_> = tokens.into_iter().map(|token| token.text).collect();
        let unsure = unsure.into_iter().map(|token| token.text).collect();
        (words.join(" "), unsure)
    }

    #[test]
    fn nested_macros_and_arguments() {
        let source = "#define A(x) B(x, 1)\n#define B(x, y) C(&(x)) + y\n#define C(p) \\\n  load(p /* c */)\n";
        assert_eq!(
            expand(source, "v = A(s->n);").0,
            "v = load ( & ( s -> n ) ) + 1 ;"
        );
        assert_eq!(expand(source, "v = A;").0, "v = A ;");
        assert_eq!(expand("#define J(a,b) a##b\n", "J(x,y)").0, "xy");
        assert_eq!(expand("#define X X + 1\n", "X").0, "X + 1");
        assert_eq!(
            expand("#define V(...) f(__VA_ARGS__)\n", "V(1, 2)").0,
            "f ( 1 , 2 )"
        );
    }

    #[test]
    fn a_definition_that_depends_is_not_sure() {
        let chosen = "#ifdef FAST\n#define GET(x) (x)\n#else\n#define GET(x) load(&(x))\n#endif\n";
        assert_eq!(expand(chosen, "GET(a)").1, ["GET"]);
        let default = "int x;\n#ifndef GET\n#define GET(x) (x)\n#endif\n";
        assert_eq!(expand(default, "GET(a)").1, ["GET"]);
        let guarded = "#ifndef FILE_H\n#define FILE_H\n#define GET(x) (x)\n#endif\n";
        assert_eq!(expand(guarded, "GET(a)"), ("( a )".to_owned(), vec![]));
        let constants = "int x;\n#ifdef A\n#define N 1\n#else\n#define N 2\n#endif\n";
        assert!(expand(constants, "N").1.is_empty());
    }

    #[test]
    fn a_macro_in_front_of_a_statement() {
        let changes = |source: &str| {
            let macros = Macros::of_files(&[(Arc::new(Directives::read(source)), false)]);
            macros.may_change_statement("M")
        };
        assert!(changes(""));
        assert!(changes(
            "#define P(x) _Pragma(#x)\n#define M P(omp atomic)\n"
        ));
        assert!(changes("#define M(x) __transaction_atomic\n"));
        assert!(changes(
            "int x;\n#ifdef _OPENMP\n#define M N\n#else\n#define M\n#endif\n"
        ));
        assert!(!changes(
            "#define M(a) for (a = 0; a < N; a++)\n#define N 3\n"
        ));
        assert!(!changes("#define M M\n"));
    }

    #[test]
    fn everything_from_a_macro_is_where_its_name_is() {
        let macros = Macros::of_files(&[(Arc::new(Directives::read("#define G(x) (x)\n")), false)]);
        let (made, _) = macros.expand(&tokens("a = G(b);", (3, 1)), &|_| false);
        assert_eq!(made[0].at, (3, 1));
        assert!(
            made[2..5]
                .iter()
                .all(|token| token.at == (3, 5) && token.expanded)
        );
    }

    proptest! {
        #[test]
        fn any_definitions_end(source in "(#define [AB](\\([ab]\\))? [ABab()#, ]{0,12}\n){0,4}", text in "[AB(a,b) ]{0,30}") {
            let _ = expand(&source, &text);
        }
    }
}
