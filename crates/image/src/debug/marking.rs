//! What the source text at a position marks as atomic or volatile, and whether that applies
//! to a given instruction.

use super::source::{Statement, is_identifier};
use super::words;
use redhanded_model::AccessKind;

/// What the source text at a position says about all accesses there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Marking {
    /// All accesses there synchronise.
    Marked(String),
    /// Those of builtins do.
    Called(Call),
    /// The only accessed object is declared atomic or volatile.
    Declared(String),
    /// One accessed object is declared so, another is not. With the declaration if all plain
    /// objects are globals.
    Mixed(Option<String>),
    /// None does.
    Plain,
    /// There is no text.
    Unknown,
}

/// The builtins in a statement that access memory atomically. There may be plain accesses
/// beside them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Call {
    pub(super) word: String,
    reads: bool,
    writes: bool,
    inside: Vec<String>,
    outside: Vec<String>,
    /// What applies to other accesses in the statement.
    pub(super) otherwise: Box<Marking>,
}

impl Call {
    /// The builtins in a statement, or the word that marks all of it.
    pub(super) fn find(statement: &Statement<'_>) -> Option<Result<Self, String>> {
        let mut call: Option<Self> = None;
        let mut depth = 0usize;
        let mut opening = false;
        let mut outside = Vec::new();
        for (at, token) in statement.tokens.iter().enumerate() {
            match *token {
                "(" if opening || depth > 0 => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                word if words::marks(word) => {
                    if statement.tokens.get(at + 1) != Some(&"(") {
                        return Some(Err(word.to_owned()));
                    }
                    let (reads, writes) = words::direction(word);
                    let call = call.get_or_insert_with(|| Self {
                        word: word.to_owned(),
                        reads: false,
                        writes: false,
                        inside: Vec::new(),
                        outside: Vec::new(),
                        otherwise: Box::new(Marking::Unknown),
                    });
                    call.reads |= reads;
                    call.writes |= writes;
                    opening = true;
                    continue;
                }
                name if is_identifier(name) => match &mut call {
                    Some(call) if depth > 0 => call.inside.push(name.to_owned()),
                    _ => outside.push(name.to_owned()),
                },
                _ => {}
            }
            opening = false;
        }
        let mut call = call?;
        call.outside = outside;
        Some(Ok(call))
    }

    /// Whether an access of this kind may belong to one of the builtins. It does not if they
    /// only store and it loads, or if the variable is named only outside of them.
    pub(super) fn speaks_of(&self, kind: Option<AccessKind>, variable: Option<&str>) -> bool {
        let direction = kind.is_none_or(|kind| {
            // An atomic update is a locked instruction, which never gets here.
            (!kind.reads() || self.reads) && (!kind.writes() || self.writes)
        });
        let elsewhere = variable.is_some_and(|name| {
            let name = name.rsplit("::").next().unwrap_or(name);
            let among = |names: &[String]| names.iter().any(|other| other == name);
            among(&self.outside) && !among(&self.inside)
        });
        direction && !elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::source::Source;
    use redhanded_model::AccessKind::{Read, Update, Write};

    fn call(text: &str) -> Call {
        let source = Source::read(text);
        let statements = source.statements(1, None);
        Call::find(&statements[0]).unwrap().unwrap()
    }

    #[test]
    fn a_load_does_not_store() {
        let load = call("x = __atomic_load_n(&a, 2) + y;");
        assert!(load.speaks_of(Some(Read), Some("a")));
        assert!(load.speaks_of(Some(Read), None));
        // Reached through a pointer, say: its name need not be there.
        assert!(load.speaks_of(Some(Read), Some("b")));
        assert!(!load.speaks_of(Some(Write), None));
        assert!(!load.speaks_of(Some(Update), None));
        assert!(!load.speaks_of(Some(Read), Some("ns::y")));
    }

    #[test]
    fn several_builtins_in_one_statement() {
        let both = call("__atomic_store_n(&a, __atomic_load_n(&b, 0), 0);");
        assert!(both.speaks_of(Some(Read), Some("b")));
        assert!(both.speaks_of(Some(Write), Some("a")));
    }

    #[test]
    fn a_volatile_cast_marks_everything() {
        let source = Source::read("x = *(volatile int *)p;");
        let found = Call::find(&source.statements(1, None)[0]);
        assert_eq!(found, Some(Err("volatile".to_owned())));
    }
}
