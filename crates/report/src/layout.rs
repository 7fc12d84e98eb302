//! Lines of text that break between atoms, never inside one.

use crate::escape::clean;
use crate::style::{Role, Style};

/// A piece of text that stays on one line.
struct Atom {
    painted: String,
    columns: usize,
    /// Spaces before it, unless the line was broken there.
    gap: usize,
}

/// A line under construction: a row of atoms.
pub(crate) struct Line<'s> {
    style: &'s Style,
    atoms: Vec<Atom>,
    gap: usize,
}

impl<'s> Line<'s> {
    pub(crate) const fn new(style: &'s Style) -> Self {
        Self {
            style,
            atoms: Vec::new(),
            gap: 0,
        }
    }

    pub(crate) const fn style(&self) -> &'s Style {
        self.style
    }

    /// Adds an atom after one space.
    pub(crate) fn put(mut self, role: Role, text: &str) -> Self {
        let text = clean(text, self.style.unicode);
        if !text.is_empty() {
            self.atoms.push(Atom {
                painted: self.style.paint(role, &text),
                columns: text.chars().count(),
                gap: self.gap,
            });
            self.gap = 1;
        }
        self
    }

    /// Adds to the last atom, without space and without a place to break.
    pub(crate) fn glue(mut self, role: Role, text: &str) -> Self {
        let Some(last) = self.atoms.last_mut() else {
            return self.put(role, text);
        };
        let text = clean(text, self.style.unicode);
        last.painted.push_str(&self.style.paint(role, &text));
        last.columns += text.chars().count();
        self
    }

    /// Adds an atom that is padded to `width` columns if another follows on its
    /// line.
    pub(crate) fn column(mut self, role: Role, text: &str, width: usize) -> Self {
        if text.is_empty() {
            self.gap += width + 2;
            return self;
        }
        self = self.put(role, text);
        let columns = self.atoms.last().map_or(0, |atom| atom.columns);
        self.gap = width.saturating_sub(columns) + 2;
        self
    }

    /// Starts so many columns further right.
    pub(crate) fn indented(mut self, columns: usize) -> Self {
        if let Some(first) = self.atoms.first_mut() {
            first.gap += columns;
        }
        self
    }

    /// How many columns it takes if it is not broken.
    pub(crate) fn columns(&self) -> usize {
        self.atoms.iter().map(|atom| atom.gap + atom.columns).sum()
    }

    /// Puts `other` beside it, `columns` from its start.
    pub(crate) fn beside(mut self, columns: usize, other: Self) -> Self {
        let gap = columns.saturating_sub(self.columns());
        self.atoms.extend(other.indented(gap).atoms);
        self
    }

    /// Adds prose, which may break at every space.
    pub(crate) fn words(self, role: Role, prose: &str) -> Self {
        prose
            .split(' ')
            .fold(self, |line, word| line.put(role, word))
    }
}

/// Text, built line by line.
pub(crate) struct Page<'s> {
    style: &'s Style,
    text: String,
}

impl<'s> Page<'s> {
    pub(crate) const fn new(style: &'s Style) -> Self {
        Self {
            style,
            text: String::new(),
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Adds an indented line. If it has to be broken, it continues at column `hang`.
    pub(crate) fn put(&mut self, indent: usize, hang: usize, line: Line<'_>) {
        let columns = self.style.columns();
        let mut at = indent;
        self.space(indent);
        let mut fresh = true;
        for atom in line.atoms {
            let gap = atom.gap;
            if !fresh && at + gap + atom.columns > columns {
                self.text.push('\n');
                self.space(hang);
                at = hang;
            } else {
                self.space(gap);
                at += gap;
            }
            self.text.push_str(&atom.painted);
            at += atom.columns;
            fresh = false;
        }
        self.text.push('\n');
    }

    fn space(&mut self, count: usize) {
        self.text.extend(std::iter::repeat_n(' ', count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_breaks_between_atoms_only() {
        let style = Style {
            width: 40,
            ..Style::default()
        };
        let long = "ns::a_function_name_with(int, long, char)";
        let mut page = Page::new(&style);
        let line = Line::new(&style)
            .put(Role::Plain, "held")
            .put(Role::Plain, long)
            .put(Role::Plain, "a.c:1");
        page.put(2, 4, line);
        assert_eq!(page.into_text(), format!("  held\n    {long}\n    a.c:1\n"));
    }

    #[test]
    fn a_column_pads_only_before_a_neighbour() {
        let style = Style::default();
        let mut page = Page::new(&style);
        page.put(
            0,
            0,
            Line::new(&style)
                .column(Role::Plain, "a", 3)
                .column(Role::Plain, "b", 3),
        );
        assert_eq!(page.into_text(), "a    b\n");
    }
}
