//! Text from the target, made safe to show.
//!
//! A thread may call itself `\x1b]0;…` and a symbol may hold a right-to-left
//! override: neither may move the cursor, retitle the window or reorder what the
//! user reads.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal would act on `c`, or show it as something else or nothing.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// `text` with every character escaped that acts on a terminal and, unless
/// `unicode`, every one outside ASCII.
#[must_use]
pub fn clean(text: &str, unicode: bool) -> Cow<'_, str> {
    let escaped = |c: char| acts(c) || (!unicode && !c.is_ascii());
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            _ if !escaped(c) => safe.push(c),
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push_str("\\t"),
            '\r' => safe.push_str("\\r"),
            _ if c.is_ascii() => {
                let _ = write!(safe, "\\x{:02x}", c as u32);
            }
            _ => {
                let _ = write!(safe, "\\u{{{:x}}}", c as u32);
            }
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_spelled_out() {
        assert_eq!(clean("a\x1b[31mb\n", true), "a\\x1b[31mb\\n");
        assert_eq!(clean("\u{9b}2J", true), "\\u{9b}2J");
        assert_eq!(clean("user\u{202e}txt", true), "user\\u{202e}txt");
        assert_eq!(clean("\x7f", true), "\\x7f");
    }

    #[test]
    fn ordinary_names_are_left_alone() {
        assert!(matches!(clean("größe→", true), Cow::Borrowed("größe→")));
        assert_eq!(clean("größe", false), "gr\\u{f6}\\u{df}e");
    }
}
