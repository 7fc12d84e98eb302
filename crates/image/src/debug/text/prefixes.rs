//! Words in front of a statement or a block that are no part of it. They are macros, or keywords
//! that this parser does not know, and may change what the statement means: `ATOMIC x = 1;`,
//! `OMP(atomic) { … }`. The syntax tree has them in many forms, so they are found by tokens.

use super::lexer::{Position, Token, TokenKind};

/// Words after which a statement, a condition or a block begins as usual, or after the parentheses
/// that follow them.
const USUAL: [&str; 18] = [
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "else",
    "do",
    "try",
    "return",
    "mutable",
    "noexcept",
    "const",
    "constexpr",
    "struct",
    "union",
    "enum",
    "class",
    "__extension__",
];

/// For each position where a statement begins: the words in front of it and in front of the blocks
/// around it. `tokens` are those of a function's body.
pub(super) fn prefixes(tokens: &[Token], starts: &[Position]) -> Vec<Vec<String>> {
    let mut order: Vec<usize> = (0..starts.len()).collect();
    order.sort_by_key(|number| starts.get(*number));
    let mut found = vec![Vec::new(); starts.len()];
    let mut next = order.into_iter().peekable();
    let mut blocks: Vec<Option<String>> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        while let Some(number) = next.peek().copied()
            && starts.get(number).is_some_and(|start| *start <= token.at)
        {
            next.next();
            if let Some(words) = found.get_mut(number) {
                words.extend(blocks.iter().flatten().cloned());
                words.extend(before(tokens, at));
            }
        }
        match token.text.as_str() {
            // The first is that of the function itself.
            "{" if blocks.is_empty() => blocks.push(None),
            "{" => blocks.push(before(tokens, at)),
            "}" => {
                blocks.pop();
            }
            _ => {}
        }
    }
    found
}

fn is_usual(word: &str) -> bool {
    USUAL.contains(&word)
}

/// The word in front of the token at `at`, with or without arguments, if it is none that usually
/// stands there.
fn before(tokens: &[Token], at: usize) -> Option<String> {
    let last = at.checked_sub(1)?;
    let token = tokens.get(last)?;
    if token.kind == TokenKind::Word {
        let returned = last
            .checked_sub(1)
            .and_then(|at| tokens.get(at))
            .is_some_and(|before| before.is("->"));
        return (!returned && !is_usual(&token.text)).then(|| token.text.clone());
    }
    if !token.is(")") {
        return None;
    }
    let mut depth = 0usize;
    for (number, token) in tokens.iter().enumerate().take(at).rev() {
        match token.text.as_str() {
            ")" => depth += 1,
            "(" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            let word = tokens.get(number.checked_sub(1)?)?;
            // `if WORD (a)`: the parentheses are those of the condition, and the word stands for
            // `constexpr` or nothing.
            let keyword = number.checked_sub(2).and_then(|at| tokens.get(at));
            let in_condition = keyword.is_some_and(|keyword| keyword.is("if"));
            let unusual = word.kind == TokenKind::Word && !is_usual(&word.text) && !in_condition;
            return unusual.then(|| word.text.clone());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::*;

    fn at(text: &str, statement: &str) -> Vec<String> {
        let start = u32::try_from(text.find(statement).unwrap() + 1).unwrap();
        prefixes(&tokens(text, (1, 1)), &[(1, start)]).remove(0)
    }

    #[test]
    fn words_in_front_of_a_statement() {
        assert_eq!(at("{ g(); ATOMIC x = 1; }", "x ="), ["ATOMIC"]);
        assert_eq!(at("{ g(); OMP(atomic write) x = 1; }", "x ="), ["OMP"]);
        assert_eq!(at("{ OMP(atomic) { v = x; x = 1; } }", "x = 1"), ["OMP"]);
        assert_eq!(at("{ TX { if (a) { x = 1; } } }", "x ="), ["TX"]);
        assert_eq!(at("{ for (;;) TX x = 1; }", "x ="), ["TX"]);
        assert_eq!(at("{ if (a) y = 1; else A(b(c)) x = 1; }", "x ="), ["A"]);
    }

    #[test]
    fn what_stands_there_as_usual() {
        for text in [
            "{ g(); x = 1; }",
            "{ if (a(b)) x = 1; }",
            "{ if constexpr (a) x = 1; }",
            "{ if CONSTEXPR (a) { x = 1; } }",
            "{ if (a) y = 1; else x = 1; }",
            "{ do x = 1; while (a); }",
            "{ for (int i = 0; i < 3; i++) { x = 1; } }",
            "{ again: x = 1; }",
            "{ switch (a) { case 1: x = 1; } }",
            "{ TX { y = 1; } x = 1; }",
            "{ f([&](int a) mutable { x = 1; }); }",
            "{ f([] { x = 1; }); }",
            "{ f([](int a) -> int { x = 1; }); }",
            "{ try { x = 1; } catch (int) { } }",
            "{ [[likely]] x = 1; }",
        ] {
            assert_eq!(at(text, "x ="), [""; 0], "{text}");
        }
        for text in ["{ if (a) {} }", "{ while (a) {} }", "{ do {} while (a); }"] {
            assert_eq!(at(text, "(a)"), [""; 0], "{text}");
        }
    }
}
