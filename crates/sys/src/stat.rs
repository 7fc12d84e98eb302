//! `/proc/PID/stat`.

/// One line of it, taken apart.
pub struct StatLine<'l> {
    /// The name of the thread, which may hold anything.
    pub name: &'l [u8],
    fields: Vec<&'l str>,
}

impl<'l> StatLine<'l> {
    /// Takes apart `pid (name) state parent group session …`. `None` if it is no such line.
    #[must_use]
    pub fn parse(line: &'l [u8]) -> Option<Self> {
        // Parentheses in the name are not escaped; after it there are none.
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        let rest = str::from_utf8(line.get(close + 1..)?).ok()?;
        Some(Self {
            name: line.get(open + 1..close)?,
            fields: rest.split_ascii_whitespace().collect(),
        })
    }

    /// A field by its number in proc(5), from 3 on.
    #[must_use]
    pub fn field(&self, number: usize) -> Option<&'l str> {
        self.fields.get(number.checked_sub(3)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let line = b"12 (a) \xff (c) T 3 4\n";
        let stat = StatLine::parse(line).unwrap();
        assert_eq!(stat.name, b"a) \xff (c");
        assert_eq!(stat.field(3), Some("T"));
        assert_eq!(stat.field(5), Some("4"));
        assert_eq!(stat.field(6), None);
        assert_eq!(stat.field(2), None);
        assert!(StatLine::parse(b")(").is_none());
        assert!(StatLine::parse(b"").is_none());
    }
}
